"""Exponential moving average mirrored on the host by a helper thread."""
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
import torch.nn as nn


class HostMirror:
    """Keeps a NumPy average of the parameters that the trainer publishes."""

    def __init__(self, params, decay):
        self.params = list(params)
        self.decay = decay
        self.stream = torch.cuda.Stream()
        self.pinned = [torch.empty(p.shape, pin_memory=True) for p in self.params]
        self.avg = [np.zeros(tuple(p.shape), dtype=np.float32) for p in self.params]
        self.workers = ThreadPoolExecutor(max_workers=1)
        self.fold_done = None

    def _pull(self, ready):
        if self.fold_done is not None:
            self.fold_done.result()
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(ready)
            for p, h in zip(self.params, self.pinned):
                h.copy_(p.detach(), non_blocking=True)
        self.stream.synchronize()

    def _fold(self):
        for h, a in zip(self.pinned, self.avg):
            a *= self.decay
            a += (1.0 - self.decay) * h.numpy()

    def publish(self):
        ready = torch.cuda.current_stream().record_event()
        if not hasattr(self, "puller"):
            self.puller = ThreadPoolExecutor(max_workers=1)
        return self.puller.submit(self._pull, ready)

    def fold(self):
        self.fold_done = self.workers.submit(self._fold)

    def close(self):
        if self.fold_done is not None:
            self.fold_done.result()
        return [float(np.abs(a).mean()) for a in self.avg]


class Trainer:
    def __init__(self, dim=1024):
        self.net = nn.Sequential(nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim)).cuda()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.mirror = HostMirror(self.net.parameters(), decay=0.9)
        self.dim = dim
        self.pull = None

    def _settle(self):
        if self.pull is not None:
            self.pull.result()
            self.pull = None
            self.mirror.fold()

    def step(self):
        x = torch.randn(512, self.dim, device="cuda")
        loss = (self.net(x) - x).square().mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self._settle()
        self.opt.step()
        self.pull = self.mirror.publish()
        return loss.detach()

    def finish(self):
        self._settle()
        return self.mirror.close()


def main():
    torch.manual_seed(0)
    tr = Trainer()
    losses = [tr.step() for _ in range(50)]
    print(torch.stack(losses)[-5:].cpu(), tr.finish())


if __name__ == "__main__":
    main()
