"""Learner that publishes policy versions while it keeps training."""
import queue
import threading
from dataclasses import dataclass
from typing import Dict, List

import torch
import torch.nn as nn


@dataclass
class Version:
    number: int
    tensors: Dict[str, torch.Tensor]
    ready: torch.cuda.Event


class WeightStore:
    """Page-locked copies of the last versions; two are alive at a time."""

    def __init__(self, model: nn.Module, copies: int = 2):
        self.pages: List[Dict[str, torch.Tensor]] = [
            {
                name: torch.empty(p.shape, dtype=p.dtype, pin_memory=True)
                for name, p in model.named_parameters()
            }
            for _ in range(copies)
        ]
        self.free: "queue.Queue" = queue.Queue()
        for page in self.pages:
            self.free.put(page)
        self.stream = torch.cuda.Stream()

    def put(self, number: int, model: nn.Module) -> Version:
        page = self.free.get()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for name, p in model.named_parameters():
                page[name].copy_(p.detach(), non_blocking=True)
            ready = torch.cuda.Event()
            ready.record()
        return Version(number, page, ready)

    def give_back(self, version: Version):
        self.free.put(version.tensors)


class Generator(threading.Thread):
    def __init__(self, store: WeightStore, inbox: "queue.Queue"):
        super().__init__(daemon=True)
        self.store = store
        self.inbox = inbox
        self.norms: Dict[int, float] = {}

    def run(self):
        while True:
            version = self.inbox.get()
            if version is None:
                return
            version.ready.synchronize()
            total = sum(float(t.square().sum()) for t in version.tensors.values())
            self.norms[version.number] = total ** 0.5
            self.store.give_back(version)


class Learner:
    def __init__(self, model: nn.Module, lr: float = 1e-3):
        self.model = model
        self.params = list(model.parameters())
        self.lr = lr

    def update(self, batch: torch.Tensor):
        loss = (self.model(batch) - batch).square().mean()
        grads = torch.autograd.grad(loss, self.params)
        with torch.no_grad():
            torch._foreach_add_(self.params, grads, alpha=-self.lr)
        return loss.detach()


def main(steps: int = 60, publish_every: int = 4):
    dim = 2048
    model = nn.Sequential(*[nn.Linear(dim, dim) for _ in range(12)]).cuda()
    learner = Learner(model)
    store = WeightStore(model)
    inbox: "queue.Queue" = queue.Queue()
    generator = Generator(store, inbox)
    generator.start()
    losses = []
    for step in range(steps):
        batch = torch.randn(32, dim, device="cuda")
        losses.append(learner.update(batch))
        if step % publish_every == 0:
            inbox.put(store.put(step, model))
    inbox.put(None)
    generator.join()
    print(len(generator.norms), torch.stack(losses).mean().item())


if __name__ == "__main__":
    main()
