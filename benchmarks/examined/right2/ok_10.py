import dataclasses

import torch
import torch.nn as nn
from torch.utils.data import DataLoader


@dataclasses.dataclass
class Sample:
    image: torch.Tensor
    boxes: list
    meta: dict


def map_tensors(obj, fn):
    """Apply fn to each tensor of a nested batch and rebuild it."""
    if isinstance(obj, torch.Tensor):
        return fn(obj)
    if isinstance(obj, dict):
        return {k: map_tensors(v, fn) for k, v in obj.items()}
    if isinstance(obj, (list, tuple)):
        return type(obj)(map_tensors(v, fn) for v in obj)
    if dataclasses.is_dataclass(obj):
        fields = {f.name: map_tensors(getattr(obj, f.name), fn) for f in dataclasses.fields(obj)}
        return type(obj)(**fields)
    return obj


def to_device(batch, device):
    return map_tensors(batch, lambda t: t.to(device, non_blocking=True))


def mark_used(batch, stream):
    def mark(t):
        t.record_stream(stream)
        return t

    map_tensors(batch, mark)


class CUDAPrefetcher:
    def __init__(self, loader: DataLoader, device: torch.device):
        self.loader = loader
        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.reset()

    def reset(self):
        self.iterator = iter(self.loader)
        self._preload()

    def _preload(self):
        try:
            batch = next(self.iterator)
        except StopIteration:
            self.batch = None
            return
        with torch.cuda.stream(self.stream):
            self.batch = to_device(batch, self.device)

    def __iter__(self):
        return self

    def __next__(self):
        current = torch.cuda.current_stream(self.device)
        current.wait_stream(self.stream)
        batch = self.batch
        if batch is None:
            raise StopIteration
        mark_used(batch, current)
        self._preload()
        return batch


def collate(samples):
    image = torch.stack([s["image"] for s in samples]).pin_memory()
    boxes = [s["boxes"].pin_memory() for s in samples]
    ids = torch.tensor([s["id"] for s in samples]).pin_memory()
    return Sample(image, boxes, {"ids": ids, "count": len(samples)})


def train(model: nn.Module, dataset, optimizer, epochs: int):
    device = torch.device("cuda")
    loader = DataLoader(dataset, batch_size=16, collate_fn=collate, shuffle=True)
    prefetcher = CUDAPrefetcher(loader, device)
    for _ in range(epochs):
        for sample in prefetcher:
            loss = model(sample.image, sample.boxes, sample.meta["ids"])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        prefetcher.reset()
