"""Checkpointing whose device-to-host staging runs beside the next training step."""
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn as nn


@dataclass
class Staged:
    step: int
    tensors: dict
    event: torch.cuda.Event


class DefaultStager:
    """Copies a state dict into reusable page-locked tensors."""

    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="stage")
        self.cache = {}

    def _slot(self, name, t):
        slot = self.cache.get(name)
        if slot is None:
            slot = self.cache[name] = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        return slot

    def _copy(self, step, state, ready):
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(ready)
            out = {}
            for name, t in state.items():
                slot = self._slot(name, t)
                slot.copy_(t, non_blocking=True)
                out[name] = slot
            event = self.stream.record_event()
        return Staged(step, out, event)

    def stage(self, step, state):
        ready = torch.cuda.current_stream().record_event()
        return self.pool.submit(self._copy, step, state, ready)


class Saver:
    def __init__(self, root):
        self.root = Path(root)
        self.pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="save")
        self.pending = None

    def _write(self, staged):
        staged.event.synchronize()
        path = self.root / f"step{staged.step:05d}.pt"
        torch.save(staged.tensors, path)
        return path

    def submit(self, staged):
        self.pending = self.pool.submit(self._write, staged)

    def wait(self):
        if self.pending is not None:
            print("saved", self.pending.result().name)
            self.pending = None


class Trainer:
    def __init__(self, root, dim=2048, depth=8, every=5):
        mods = [m for _ in range(depth) for m in (nn.Linear(dim, dim), nn.ReLU())]
        self.model = nn.Sequential(*mods, nn.Linear(dim, 16)).cuda()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=1e-2, momentum=0.9)
        self.stager = DefaultStager()
        self.saver = Saver(root)
        self.every = every
        self.staging = None
        self.dim = dim

    def _backward(self):
        x = torch.randn(128, self.dim, device="cuda")
        y = torch.randint(0, 16, (128,), device="cuda")
        self.opt.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(self.model(x), y).backward()

    def step(self, i):
        self._backward()
        if self.staging is not None:
            self.saver.submit(self.staging.result())
            self.staging = None
        self.opt.step()
        if i % self.every == 0:
            self.saver.wait()
            state = {k: v.detach() for k, v in self.model.state_dict().items()}
            self.staging = self.stager.stage(i, state)


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as root:
        trainer = Trainer(root)
        torch.cuda.synchronize()
        for i in range(1, 24):
            trainer.step(i)
        trainer.saver.wait()


if __name__ == "__main__":
    main()
