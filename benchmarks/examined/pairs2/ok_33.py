"""Snapshots in reusable host slots, returned by the writer when they are on disk."""
import queue
import threading
from dataclasses import dataclass, field

import torch
import torch.nn as nn


@dataclass
class Snapshot:
    tensors: dict
    step: int = -1
    ready: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class SnapshotPool:
    def __init__(self, model, slots=2):
        self.model = model
        self.free, self.full = queue.Queue(), queue.Queue()
        for _ in range(slots):
            self.free.put(Snapshot({n: torch.empty(p.shape, pin_memory=True) for n, p in model.named_parameters()}))

    def take(self, step):
        snap = self.free.get()
        for name, p in self.model.named_parameters():
            snap.tensors[name].copy_(p.detach(), non_blocking=True)
        snap.ready.record()
        snap.step = step
        self.full.put(snap)

    def writer(self):
        for snap in iter(self.full.get, None):
            snap.ready.synchronize()
            torch.save(snap.tensors, f"snap_{snap.step}.pt")
            self.free.put(snap)


def main():
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    pool = SnapshotPool(model)
    thread = threading.Thread(target=pool.writer)
    thread.start()
    for step in range(400):
        x = torch.randn(64, 1024, device="cuda")
        opt.zero_grad()
        model(x).pow(2).mean().backward()
        opt.step()
        if step % 20 == 0:
            pool.take(step)
    pool.full.put(None)
    thread.join()


if __name__ == "__main__":
    main()
