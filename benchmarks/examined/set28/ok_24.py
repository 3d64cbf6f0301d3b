import queue
import threading

import numpy as np
import torch
from torch import nn


class PairBuffer:
    """One pinned host buffer and one device buffer for a batch of (theta, x)."""

    def __init__(self, batch, theta_shape, x_shape, device):
        self.host = {
            "theta": torch.empty(batch, *theta_shape, pin_memory=True),
            "x": torch.empty(batch, *x_shape, pin_memory=True),
        }
        self.device = {k: torch.empty(v.shape, device=device) for k, v in self.host.items()}
        self.uploaded = torch.cuda.Event()
        self.consumed = torch.cuda.Event()


class CachedDataLoader:
    def __init__(self, theta, x, batch, device="cuda", seed=0):
        self.arrays = {"theta": theta, "x": x}
        self.batch = batch
        self.rng = np.random.default_rng(seed)
        self.stream = torch.cuda.Stream(device)
        self.todo, self.done = queue.Queue(), queue.Queue()
        buffers = [PairBuffer(batch, theta.shape[1:], x.shape[1:], device) for _ in range(2)]
        self.stream.wait_stream(torch.cuda.current_stream(device))
        for b in buffers:
            self.todo.put(b)
        self.current = None
        self.worker = threading.Thread(target=self._work, daemon=True)
        self.worker.start()

    def _work(self):
        while True:
            buf = self.todo.get()
            if buf is None:
                return
            buf.uploaded.synchronize()
            pick = self.rng.integers(0, len(self.arrays["theta"]), self.batch)
            for key, array in self.arrays.items():
                np.take(array, pick, axis=0, out=buf.host[key].numpy())
            with torch.cuda.stream(self.stream):
                self.stream.wait_event(buf.consumed)
                for key, host in buf.host.items():
                    buf.device[key].copy_(host, non_blocking=True)
                buf.uploaded.record()
            self.done.put(buf)

    def sample_batch(self):
        if self.current is not None:
            self.current.consumed.record()
            self.todo.put(self.current)
        self.current = self.done.get()
        torch.cuda.current_stream().wait_event(self.current.uploaded)
        return self.current.device["theta"], self.current.device["x"]

    def close(self):
        self.todo.put(None)
        self.worker.join()
        self.stream.synchronize()


class RatioEstimator(nn.Module):
    def __init__(self, theta_dim, x_dim, hidden=512):
        super().__init__()
        self.compress = nn.Sequential(nn.Linear(x_dim, hidden), nn.GELU(), nn.Linear(hidden, 64))
        self.head = nn.Sequential(nn.Linear(64 + theta_dim, hidden), nn.GELU(), nn.Linear(hidden, 1))

    def forward(self, theta, x):
        s = self.compress(x)
        joint = self.head(torch.cat([s, theta], dim=1))
        marginal = self.head(torch.cat([s, theta.roll(1, dims=0)], dim=1))
        return nn.functional.softplus(-joint).mean() + nn.functional.softplus(marginal).mean()


def train(theta, x, steps=10_000, batch=256):
    loader = CachedDataLoader(theta.astype(np.float32), x.astype(np.float32), batch)
    model = RatioEstimator(theta.shape[1], x.shape[1]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    history = torch.empty(steps, device="cuda")
    for step in range(steps):
        loss = model(*loader.sample_batch())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        history[step] = loss.detach()
    loader.close()
    return model, history.cpu().numpy()
