"""Image batch prefetcher used by the classification trainer."""
from typing import Dict, Iterator, Optional

import torch
from torch.utils.data import DataLoader

Batch = Dict[str, torch.Tensor]


class NormalizingPrefetcher:
    """Iterates over a pinned DataLoader and yields normalized device batches."""

    MEAN = (0.485, 0.456, 0.406)
    STD = (0.229, 0.224, 0.225)

    def __init__(self, loader: DataLoader, device: torch.device, half: bool = True):
        self._loader = loader
        self._device = device
        self._dtype = torch.float16 if half else torch.float32
        self._stream = torch.cuda.Stream(device=device)
        with torch.cuda.stream(self._stream):
            self._mean = torch.tensor(self.MEAN, device=device).view(1, 3, 1, 1).mul_(255.0)
            self._std = torch.tensor(self.STD, device=device).view(1, 3, 1, 1).mul_(255.0)
        self._it: Optional[Iterator] = None
        self._next: Optional[Batch] = None

    def __iter__(self) -> "NormalizingPrefetcher":
        self._it = iter(self._loader)
        self._preload()
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def _preload(self) -> None:
        try:
            images, target = next(self._it)
        except StopIteration:
            self._next = None
            return
        with torch.cuda.stream(self._stream):
            raw = images.to(self._device, non_blocking=True)
            label = target.to(self._device, non_blocking=True)
            x = raw.float().sub_(self._mean).div_(self._std).to(self._dtype)
        self._next = {"image": x, "label": label}

    def __next__(self) -> Batch:
        if self._it is None:
            raise RuntimeError("iterate over the prefetcher before calling next()")
        batch = self._next
        if batch is None:
            raise StopIteration
        current = torch.cuda.current_stream(self._device)
        current.wait_stream(self._stream)
        for tensor in batch.values():
            tensor.record_stream(current)
        self._preload()
        return batch


def train_epoch(model, loader, optimizer, loss_fn, device, max_steps: Optional[int] = None):
    model.train()
    total = torch.zeros((), device=device)
    steps = 0
    for batch in NormalizingPrefetcher(loader, device, half=False):
        optimizer.zero_grad(set_to_none=True)
        loss = loss_fn(model(batch["image"]), batch["label"])
        loss.backward()
        optimizer.step()
        total += loss.detach()
        steps += 1
        if max_steps is not None and steps >= max_steps:
            break
    return (total / max(steps, 1)).item()
