"""Input pipeline wrapper that moves nested batches to the accelerator."""
from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Iterable, Iterator

import torch


def _map(obj: Any, fn) -> Any:
    if isinstance(obj, torch.Tensor):
        return fn(obj)
    if isinstance(obj, Mapping):
        return {k: _map(v, fn) for k, v in obj.items()}
    if isinstance(obj, (list, tuple)):
        return type(obj)(_map(v, fn) for v in obj)
    return obj


class DeviceLoader:
    """Iterates ``loader`` and yields batches that live on ``device``."""

    def __init__(
        self,
        loader: Iterable,
        device: torch.device,
        mean: tuple[float, float, float] = (0.485, 0.456, 0.406),
        std: tuple[float, float, float] = (0.229, 0.224, 0.225),
    ) -> None:
        self.loader = loader
        self.device = device
        self.stream = torch.cuda.Stream(device)
        with torch.cuda.stream(self.stream):
            self.mean = torch.tensor(mean, device=device).view(1, 3, 1, 1)
            self.std = torch.tensor(std, device=device).view(1, 3, 1, 1)

    def __len__(self) -> int:
        return len(self.loader)

    def _move(self, tensor: torch.Tensor) -> torch.Tensor:
        moved = tensor.to(self.device, non_blocking=True)
        if moved.dtype == torch.uint8 and moved.dim() == 4:
            moved = moved.float().div_(255.0).sub_(self.mean).div_(self.std)
        return moved

    def __iter__(self) -> Iterator[Any]:
        batch = None
        first = True
        for upcoming in self.loader:
            with torch.cuda.stream(self.stream):
                moved = _map(upcoming, self._move)
            if first:
                first = False
            else:
                yield batch
            consumer = torch.cuda.current_stream(self.device)
            consumer.wait_stream(self.stream)
            _map(moved, lambda t: t.record_stream(consumer) or t)
            batch = moved
            del moved
        if not first:
            yield batch


def evaluate(model: torch.nn.Module, loader: Iterable, device: torch.device) -> float:
    model.eval()
    correct = torch.zeros((), dtype=torch.long, device=device)
    total = 0
    with torch.inference_mode():
        for batch in DeviceLoader(loader, device):
            logits = model(batch["image"])
            correct += (logits.argmax(1) == batch["label"]).sum()
            total += batch["label"].numel()
    return correct.item() / max(total, 1)
