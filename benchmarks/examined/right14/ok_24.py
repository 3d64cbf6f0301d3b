"""Checkpoints taken in the background while training goes on."""
from __future__ import annotations

import os
import threading
from pathlib import Path

import torch
from torch import nn


class AsyncCheckpointer:
    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, root: Path) -> None:
        self.model = model
        self.root = root
        self.device = next(model.parameters()).device
        self.stream = torch.cuda.Stream(self.device)
        self.host: dict[str, torch.Tensor] = {}
        self.copied: torch.cuda.Event | None = None
        self.thread: threading.Thread | None = None
        self.failure: BaseException | None = None
        self._hook = optimizer.register_step_pre_hook(self._before_step)

    def _before_step(self, optimizer, args, kwargs) -> None:
        if self.copied is not None:
            torch.cuda.current_stream(self.device).wait_event(self.copied)
            self.copied = None

    def save(self, step: int) -> None:
        self.wait()
        entries = {name: p.detach() for name, p in self.model.named_parameters()}
        for name, buffer in self.model.named_buffers():
            entries[name] = buffer.detach().clone()
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            for name, tensor in entries.items():
                tensor.record_stream(self.stream)
                if name not in self.host:
                    self.host[name] = torch.empty(
                        tensor.shape, dtype=tensor.dtype, pin_memory=True
                    )
                self.host[name].copy_(tensor, non_blocking=True)
        event = self.stream.record_event()
        self.copied = event
        self.thread = threading.Thread(target=self._write, args=(step, event))
        self.thread.start()

    def _write(self, step: int, event: torch.cuda.Event) -> None:
        try:
            event.synchronize()
            final = self.root / f"step{step:07d}.pt"
            partial = final.with_suffix(".tmp")
            torch.save(self.host, partial)
            os.replace(partial, final)
        except BaseException as exc:
            self.failure = exc

    def wait(self) -> None:
        if self.thread is not None:
            self.thread.join()
            self.thread = None
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def close(self) -> None:
        try:
            self.wait()
        finally:
            self._hook.remove()


def train(model: nn.Module, batches, root: Path, every: int = 100) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    checkpointer = AsyncCheckpointer(model, optimizer, root)
    try:
        for step, (x, y) in enumerate(batches):
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if step % every == 0:
                checkpointer.save(step)
    finally:
        checkpointer.close()


def main(root: Path) -> None:
    root.mkdir(parents=True, exist_ok=True)
    device = torch.device("cuda:0")
    net = nn.Sequential(nn.Linear(128, 1024), nn.GELU(), nn.Linear(1024, 1)).to(device)
    data = (
        (torch.randn(64, 128, device=device), torch.randn(64, 1, device=device))
        for _ in range(1000)
    )
    train(net, data, root)


if __name__ == "__main__":
    main(Path("checkpoints"))
