"""Activation logger with recycled page-locked buffers."""
from collections import deque
from typing import Deque, Dict, List, NamedTuple, Tuple

import torch
import torch.nn as nn


class Pending(NamedTuple):
    name: str
    host: torch.Tensor
    done: torch.cuda.Event


class HostPool:
    def __init__(self):
        self.free: Dict[Tuple[torch.Size, torch.dtype], List[torch.Tensor]] = {}

    def take(self, like: torch.Tensor) -> torch.Tensor:
        spare = self.free.get((like.shape, like.dtype))
        if spare:
            return spare.pop()
        return torch.empty(like.shape, dtype=like.dtype, pin_memory=True)

    def give(self, host: torch.Tensor) -> None:
        self.free.setdefault((host.shape, host.dtype), []).append(host)


class ActivationLogger:
    """Forward hooks queue copies on one stream; poll() is called once per step."""

    def __init__(self, device: torch.device):
        self.stream = torch.cuda.Stream(device)
        self.pool = HostPool()
        self.pending: Deque[Pending] = deque()
        self.stats: Dict[str, List[float]] = {}

    def attach(self, model: nn.Module) -> None:
        for name, module in model.named_modules():
            if isinstance(module, nn.Linear):
                module.register_forward_hook(self._hook(name))

    def _hook(self, name: str):
        def hook(module, args, output: torch.Tensor) -> None:
            value = output.detach().clone()
            host = self.pool.take(value)
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                host.copy_(value, non_blocking=True)
            value.record_stream(self.stream)
            self.pending.append(Pending(name, host, self.stream.record_event()))
        return hook

    def _handle(self, entry: Pending) -> None:
        self.stats.setdefault(entry.name, []).append(float(entry.host.abs().mean()))
        self.pool.give(entry.host)

    def poll(self) -> int:
        handled = 0
        while self.pending:
            if not self.pending[0].done.query():
                break
            self._handle(self.pending.popleft())
            handled += 1
        return handled

    def close(self) -> None:
        while self.pending:
            entry = self.pending.popleft()
            entry.done.synchronize()
            self._handle(entry)


def train(model: nn.Module, logger: ActivationLogger, steps: int, rows: int, dim: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randn(rows, dim, device="cuda")
        optimizer.zero_grad(set_to_none=True)
        (model(x) - x).square().mean().backward()
        optimizer.step()
        logger.poll()


def main() -> None:
    model = nn.Sequential(
        nn.Linear(1024, 4096), nn.ReLU(inplace=True), nn.Linear(4096, 1024)).cuda()
    logger = ActivationLogger(torch.device("cuda"))
    logger.attach(model)
    train(model, logger, steps=60, rows=1024, dim=1024)
    logger.close()
    print({name: values[-1] for name, values in logger.stats.items()})


if __name__ == "__main__":
    main()
