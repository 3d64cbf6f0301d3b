"""Device prefetching iterator over a pinned-memory DataLoader."""
from __future__ import annotations

from typing import Any, Iterator

import torch
from torch.utils.data import DataLoader, TensorDataset


def _leaves(obj: Any) -> Iterator[torch.Tensor]:
    if isinstance(obj, torch.Tensor):
        yield obj
    elif isinstance(obj, dict):
        for value in obj.values():
            yield from _leaves(value)
    elif isinstance(obj, (list, tuple)):
        for value in obj:
            yield from _leaves(value)


def _map(obj: Any, fn) -> Any:
    if isinstance(obj, torch.Tensor):
        return fn(obj)
    if isinstance(obj, dict):
        return {key: _map(value, fn) for key, value in obj.items()}
    if isinstance(obj, (list, tuple)):
        return type(obj)(_map(value, fn) for value in obj)
    return obj


class CudaPrefetcher:
    def __init__(self, loader: DataLoader, device: torch.device, scale: float = 1.0 / 255.0):
        self.loader = loader
        self.device = device
        self.scale = scale
        self.stream = torch.cuda.Stream(device=device)
        self._source: Iterator | None = None
        self._pending: Any = None
        self._exhausted = True

    def _upload(self, host: torch.Tensor) -> torch.Tensor:
        if host.device.type != "cpu":
            raise TypeError("CudaPrefetcher expects host batches")
        dev = host.to(self.device, non_blocking=True)
        if dev.dtype == torch.uint8:
            dev = dev.to(torch.float32).mul_(self.scale)
        return dev

    def _advance(self) -> None:
        try:
            host_batch = next(self._source)
        except StopIteration:
            self._pending = None
            self._exhausted = True
            return
        with torch.cuda.stream(self.stream):
            self._pending = _map(host_batch, self._upload)

    def __iter__(self) -> "CudaPrefetcher":
        self._source = iter(self.loader)
        self._exhausted = False
        self._advance()
        return self

    def __next__(self) -> Any:
        if self._exhausted:
            raise StopIteration
        consumer = torch.cuda.current_stream(self.device)
        consumer.wait_stream(self.stream)
        batch = self._pending
        for tensor in _leaves(batch):
            tensor.record_stream(consumer)
        self._advance()
        return batch

    def __len__(self) -> int:
        return len(self.loader)


def train(epochs: int = 2) -> float:
    device = torch.device("cuda", 0)
    images = torch.randint(0, 255, (1024, 3, 32, 32), dtype=torch.uint8)
    labels = torch.randint(0, 10, (1024,))
    loader = DataLoader(TensorDataset(images, labels), batch_size=64, pin_memory=True, drop_last=False)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10)).to(device)
    optim = torch.optim.SGD(model.parameters(), lr=0.01)
    prefetcher = CudaPrefetcher(loader, device)
    loss = torch.zeros((), device=device)
    for _ in range(epochs):
        for x, y in prefetcher:
            optim.zero_grad(set_to_none=True)
            loss = torch.nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optim.step()
    return float(loss)


if __name__ == "__main__":
    print(train())
