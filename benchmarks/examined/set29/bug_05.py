"""Flash checkpointing: snapshot to page-locked memory, persist from a saver thread."""
from __future__ import annotations

import os
import queue
import threading
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class SaveEvent:
    step: int
    path: str
    copied: torch.cuda.Event


class HostSnapshot:
    """Page-locked mirror of a flat state dict, kept across checkpoints."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self.stream = torch.cuda.Stream()

    def copy_from(self, state: dict[str, torch.Tensor]) -> torch.cuda.Event:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for name, value in state.items():
                host = self.tensors.get(name)
                if host is None:
                    host = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
                    self.tensors[name] = host
                host.copy_(value.detach(), non_blocking=True)
            copied = torch.cuda.Event()
            copied.record(self.stream)
        torch.cuda.current_stream().wait_event(copied)
        return copied


class AsyncSaver(threading.Thread):
    def __init__(self, snapshot: HostSnapshot) -> None:
        super().__init__(daemon=True)
        self.snapshot = snapshot
        self.events: queue.Queue[SaveEvent | None] = queue.Queue()
        self.last_persisted = -1

    def run(self) -> None:
        while (event := self.events.get()) is not None:
            event.copied.synchronize()
            tmp = event.path + ".tmp"
            torch.save({"step": event.step, "state": dict(self.snapshot.tensors)}, tmp)
            os.replace(tmp, event.path)
            self.last_persisted = event.step


class CheckpointEngine:
    def __init__(self, directory: str) -> None:
        os.makedirs(directory, exist_ok=True)
        self.directory = directory
        self.snapshot = HostSnapshot()
        self.saver = AsyncSaver(self.snapshot)
        self.saver.start()

    def save_to_memory(self, state: dict[str, torch.Tensor]) -> torch.cuda.Event:
        return self.snapshot.copy_from(state)

    def save_to_storage(self, step: int, state: dict[str, torch.Tensor]) -> None:
        copied = self.save_to_memory(state)
        path = os.path.join(self.directory, f"step_{step}.pt")
        self.saver.events.put(SaveEvent(step, path, copied))

    def close(self) -> None:
        self.saver.events.put(None)
        self.saver.join()


def train(steps: int, memory_interval: int, disk_interval: int) -> None:
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(8)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    engine = CheckpointEngine("/tmp/flash_ckpt")
    for step in range(1, steps + 1):
        loss = model(torch.randn(512, 2048, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % disk_interval == 0:
            engine.save_to_storage(step, dict(model.state_dict()))
        elif step % memory_interval == 0:
            engine.save_to_memory(dict(model.state_dict()))
    engine.close()


if __name__ == "__main__":
    train(steps=200, memory_interval=5, disk_interval=50)
