import os
import tempfile
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class Snapshotter:
    def __init__(self, model, folder):
        self.model = model
        self.folder = folder
        self.stream = torch.cuda.Stream()
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.host = {
            name: torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
            for name, p in model.named_parameters()
        }
        self.pulled = None
        self.written = []

    def _pull(self, settled):
        with torch.no_grad(), torch.cuda.stream(self.stream):
            self.stream.wait_event(settled)
            for name, p in self.model.named_parameters():
                self.host[name].copy_(p, non_blocking=True)
        self.stream.synchronize()

    def _write(self, step):
        path = os.path.join(self.folder, f"step{step}.pt")
        torch.save(self.host, path)
        return path

    def take(self, step):
        settled = torch.cuda.Event()
        settled.record()
        self.pulled = self.pool.submit(self._pull, settled)
        self.written.append(self.pool.submit(self._write, step))

    def fence(self):
        if self.pulled is not None:
            self.pulled.result()
            self.pulled = None

    def close(self):
        paths = [f.result() for f in self.written]
        self.pool.shutdown()
        return paths


def train(steps, every, folder):
    model = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 256)).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    snap = Snapshotter(model, folder)
    for step in range(steps):
        x = torch.randn(64, 256, device="cuda")
        loss = (model(x) - x).square().mean()
        loss.backward()
        snap.fence()
        opt.step()
        opt.zero_grad(set_to_none=True)
        if step % every == 0:
            snap.take(step)
    return snap.close(), loss.item()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as d:
        print(train(200, 20, d))
