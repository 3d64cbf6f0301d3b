"""Adapter server: weights are merged by an executor and fetched through futures."""
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import nn


class DeltaStore:
    def __init__(self, names, dim, rank):
        self.files = {
            name: (torch.randn(dim, rank).pin_memory(), torch.randn(rank, dim).pin_memory())
            for name in names
        }

    def read(self, name):
        return self.files[name]


class MergeService:
    def __init__(self, base, store, device):
        self.base = base
        self.store = store
        self.device = device
        self.executor = ThreadPoolExecutor(max_workers=1)
        self.stream = torch.cuda.Stream(device)
        self.merged: dict[str, Future] = {}

    def _merge(self, name):
        a, b = self.store.read(name)
        with torch.cuda.stream(self.stream):
            a = a.to(self.device, non_blocking=True)
            b = b.to(self.device, non_blocking=True)
            return torch.addmm(self.base, a, b, alpha=0.01)

    def prepare(self, name):
        if name not in self.merged:
            self.merged[name] = self.executor.submit(self._merge, name)

    def weight(self, name):
        self.prepare(name)
        return self.merged[name].result()


class Frontend:
    def __init__(self, service):
        self.service = service

    def handle(self, batch):
        for name, _ in batch:
            self.service.prepare(name)
        outputs = []
        for name, x in batch:
            w = self.service.weight(name)
            outputs.append(nn.functional.gelu(x @ w))
        return outputs


@torch.no_grad()
def main():
    dim, rank = 4096, 64
    device = torch.device("cuda", 0)
    names = [f"tenant-{i}" for i in range(8)]
    base = torch.randn(dim, dim, device=device) / dim ** 0.5
    torch.cuda.synchronize(device)
    frontend = Frontend(MergeService(base, DeltaStore(names, dim, rank), device))
    for start in range(0, 8, 2):
        batch = [(n, torch.randn(16, dim, device=device)) for n in names[start:start + 2]]
        for out in frontend.handle(batch):
            print(out.mean().item())


if __name__ == "__main__":
    main()
