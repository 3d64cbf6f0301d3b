"""Training with checkpoints staged by a background thread."""
import threading
from concurrent.futures import ThreadPoolExecutor

import torch
import torch.nn as nn


class PinnedStager:
    def __init__(self, module):
        self.names = [n for n, _ in module.named_parameters()]
        self.host = {
            n: torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
            for n, p in module.named_parameters()
        }
        self.stream = torch.cuda.Stream()
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.lock = threading.Lock()

    def start(self, module):
        produced = torch.cuda.Event()
        produced.record()
        params = {n: p.detach() for n, p in module.named_parameters()}
        return self.pool.submit(self._stage, params, produced)

    def _stage(self, params, produced):
        with self.lock, torch.cuda.stream(self.stream):
            self.stream.wait_event(produced)
            for name in self.names:
                self.host[name].copy_(params[name], non_blocking=True)
        self.stream.synchronize()
        return self.host


class Writer:
    def __init__(self):
        self.digests = []

    def upload(self, step, host):
        total = sum(float(t.double().sum()) for t in host.values())
        self.digests.append((step, total))


class AsyncCheckpointTrainer:
    def __init__(self, dim=1024, every=5):
        self.model = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)
        ).cuda()
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.stager = PinnedStager(self.model)
        self.writer = Writer()
        self.every, self.dim = every, dim
        self.staging = None

    def _finish_staging(self):
        if self.staging is None:
            return
        step, future = self.staging
        self.writer.upload(step, future.result())
        self.staging = None

    def step(self, i):
        x = torch.randn(128, self.dim, device="cuda")
        loss = (self.model(x) - x).pow(2).mean()
        loss.backward()
        self._finish_staging()
        self.opt.step()
        self.opt.zero_grad()
        if i % self.every == 0:
            self.staging = (i, self.stager.start(self.model))
        return loss.detach()

    def close(self):
        self._finish_staging()
        self.stager.pool.shutdown()


def main():
    trainer = AsyncCheckpointTrainer()
    losses = [trainer.step(i) for i in range(31)]
    trainer.close()
    print(losses[-1].item(), trainer.writer.digests)


if __name__ == "__main__":
    main()
