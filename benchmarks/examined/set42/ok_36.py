"""Weight averaging that is exported in the background of training."""
import threading
from collections import deque
from typing import Dict, List, Tuple

import torch
import torch.nn as nn


class Exporter:
    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.jobs: deque = deque()
        self.written: List[Tuple[int, float]] = []

    def snapshot(self, step: int, model: nn.Module):
        copies = {k: v.detach().clone() for k, v in model.state_dict().items()}
        self.stream.wait_stream(torch.cuda.current_stream())
        host: Dict[str, torch.Tensor] = {}
        with torch.cuda.stream(self.stream):
            for name, tensor in copies.items():
                page = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
                page.copy_(tensor, non_blocking=True)
                tensor.record_stream(self.stream)
                host[name] = page
            done = torch.cuda.Event()
            done.record()
        thread = threading.Thread(target=self._write, args=(step, host, done))
        thread.start()
        self.jobs.append(thread)

    def _write(self, step: int, host: Dict[str, torch.Tensor], done: torch.cuda.Event):
        done.synchronize()
        size = sum(t.abs().sum().item() for t in host.values() if t.is_floating_point())
        self.written.append((step, size))

    def close(self):
        while self.jobs:
            self.jobs.popleft().join()


class AveragedTrainer:
    def __init__(self, model: nn.Module, decay: float = 0.99):
        self.model = model
        self.average = {k: p.detach().clone() for k, p in model.named_parameters()}
        self.decay = decay
        self.opt = torch.optim.AdamW(model.parameters(), lr=3e-4)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        loss = (self.model(x) - x.roll(1, dims=-1)).abs().mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            for k, p in self.model.named_parameters():
                self.average[k].lerp_(p, 1 - self.decay)
        return loss.detach()


def main(steps: int = 80, every: int = 10):
    dim = 1024
    model = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim)).cuda()
    trainer = AveragedTrainer(model)
    exporter = Exporter()
    loss = None
    for step in range(steps):
        loss = trainer.step(torch.randn(128, dim, device="cuda"))
        if step % every == every - 1:
            exporter.snapshot(step, model)
    exporter.close()
    print(loss.item(), sorted(exporter.written)[-1])


if __name__ == "__main__":
    main()
