from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Optional

import torch
from torch import nn


class AsyncCheckpointer:
    """Stages the state dict in pinned memory and writes it from a thread."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, directory: str) -> None:
        self.model = model
        self.directory = directory
        os.makedirs(directory, exist_ok=True)
        self.stream = torch.cuda.Stream()
        self.staging: dict[str, torch.Tensor] = {}
        self.staged: Optional[torch.cuda.Event] = None
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.pending: Optional[Future] = None
        optimizer.register_step_pre_hook(self._before_step)

    def _before_step(self, optimizer, args, kwargs) -> None:
        if self.staged is not None:
            torch.cuda.current_stream().wait_event(self.staged)
            self.staged = None

    def _buffer(self, name: str, t: torch.Tensor) -> torch.Tensor:
        if name not in self.staging:
            self.staging[name] = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        return self.staging[name]

    @torch.no_grad()
    def save(self, step: int) -> None:
        if self.pending is not None:
            self.pending.result()
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for name, t in self.model.state_dict().items():
                self._buffer(name, t).copy_(t, non_blocking=True)
            event = self.stream.record_event()
        self.staged = event
        self.pending = self.pool.submit(self._write, step, event)

    def _write(self, step: int, event: torch.cuda.Event) -> str:
        event.synchronize()
        path = os.path.join(self.directory, f"step_{step}.pt")
        torch.save(self.staging, path + ".tmp")
        os.replace(path + ".tmp", path)
        return path

    def close(self) -> None:
        if self.pending is not None:
            self.pending.result()
        self.pool.shutdown()


def main() -> None:
    model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
    saver = AsyncCheckpointer(model, opt, "/tmp/ckpt")
    for step in range(200):
        x = torch.randn(128, 256, device="cuda")
        loss = (model(x) - x.roll(1, dims=1)).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 50 == 49:
            saver.save(step)
    saver.close()
    print(loss.item())


if __name__ == "__main__":
    main()
