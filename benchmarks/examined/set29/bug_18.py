"""Multi-threaded checkpoint writer with overlapped device-to-host transfers."""
from __future__ import annotations

import collections
import os
import queue
import threading
from typing import Iterator

import torch
from torch import nn


class OverlappingCpuLoader:
    """Streams tensors to the host, keeping a bounded number of bytes in flight."""

    def __init__(self, inflight_threshold: int = 1 << 26) -> None:
        self.items: list[tuple[str, torch.Tensor]] = []
        self.inflight_threshold = inflight_threshold
        self.in_flight = 0
        self.current: collections.deque[tuple[str, torch.Tensor, int]] = collections.deque()
        self.stream = torch.cuda.current_stream()

    def add(self, name: str, tensor: torch.Tensor) -> None:
        self.items.append((name, tensor))

    def _drain(self) -> list[tuple[str, torch.Tensor]]:
        drained = []
        if self.in_flight >= self.inflight_threshold:
            self.stream.synchronize()
        while self.in_flight >= self.inflight_threshold:
            name, host, size = self.current.popleft()
            self.in_flight -= size
            drained.append((name, host))
        return drained

    def _refill(self, pending: collections.deque) -> None:
        with torch.cuda.stream(self.stream):
            while pending and self.in_flight < self.inflight_threshold:
                name, tensor = pending.popleft()
                size = tensor.numel() * tensor.element_size()
                host = tensor.detach().to("cpu", non_blocking=True)
                self.current.append((name, host, size))
                self.in_flight += size

    def values(self) -> Iterator[tuple[str, torch.Tensor]]:
        pending = collections.deque(sorted(self.items, key=lambda kv: kv[1].numel()))
        while pending:
            yield from self._drain()
            self._refill(pending)
        if self.current:
            self.stream.synchronize()
        for name, host, _ in self.current:
            yield name, host


def write_files_from_queue(files: queue.Queue, done: queue.Queue) -> None:
    while True:
        try:
            path, tensors = files.get_nowait()
        except queue.Empty:
            return
        with torch.cuda.stream(torch.cuda.Stream()):
            loader = OverlappingCpuLoader()
            for name, tensor in tensors:
                loader.add(name, tensor)
            with open(path, "wb") as f:
                torch.save(dict(loader.values()), f)
        done.put(path)


class FileSystemWriter:
    def __init__(self, directory: str, thread_count: int) -> None:
        self.directory = directory
        self.thread_count = thread_count
        os.makedirs(directory, exist_ok=True)

    def save(self, state: dict[str, torch.Tensor], step: int) -> list[str]:
        files: queue.Queue = queue.Queue()
        done: queue.Queue = queue.Queue()
        entries = list(state.items())
        for i in range(self.thread_count):
            files.put((os.path.join(self.directory, f"{step}_{i}.pt"), entries[i :: self.thread_count]))
        threads = [
            threading.Thread(target=write_files_from_queue, args=(files, done))
            for _ in range(1, self.thread_count)
        ]
        for t in threads:
            t.start()
        write_files_from_queue(files, done)
        for t in threads:
            t.join()
        return [done.get() for _ in range(self.thread_count)]


def main() -> None:
    model = nn.Sequential(*[nn.Linear(4096, 4096) for _ in range(8)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    writer = FileSystemWriter("/tmp/dcp", thread_count=4)
    for step in range(1, 101):
        loss = model(torch.randn(1024, 4096, device="cuda")).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print(writer.save(dict(model.state_dict()), step))


if __name__ == "__main__":
    main()
