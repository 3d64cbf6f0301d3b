"""Feature loader for the detector: host batches arrive one step ahead of the model."""
import collections.abc
from typing import Any, Iterable, Iterator

import torch
from torch.utils.data import DataLoader, Dataset


def walk(obj: Any, fn):
    if isinstance(obj, torch.Tensor):
        return fn(obj)
    if isinstance(obj, dict):
        return {k: walk(v, fn) for k, v in obj.items()}
    if isinstance(obj, tuple) and hasattr(obj, "_fields"):
        return type(obj)(*(walk(v, fn) for v in obj))
    if isinstance(obj, collections.abc.Sequence) and not isinstance(obj, str):
        return type(obj)(walk(v, fn) for v in obj)
    return obj


def claim(batch: Any, stream: torch.cuda.Stream) -> Any:
    def mark(t: torch.Tensor) -> torch.Tensor:
        if t.is_cuda:
            t.record_stream(stream)
        return t

    return walk(batch, mark)


class StreamedLoader:
    def __init__(self, loader: Iterable, device: torch.device):
        self.loader = loader
        self.device = device
        self.copy_stream = torch.cuda.Stream(device)

    def _upload(self, batch):
        with torch.cuda.stream(self.copy_stream):
            return walk(batch, lambda t: t.to(self.device, non_blocking=True))

    def __iter__(self) -> Iterator[Any]:
        it = iter(self.loader)
        pending = next(it, None)
        if pending is not None:
            pending = self._upload(pending)
        while pending is not None:
            compute = torch.cuda.current_stream(self.device)
            compute.wait_stream(self.copy_stream)
            ready = claim(pending, compute)
            host = next(it, None)
            pending = None if host is None else self._upload(host)
            yield ready


class Boxes(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return {
            "image": torch.rand(3, 128, 128, generator=g),
            "target": (torch.rand(8, 4, generator=g), torch.randint(0, 80, (8,), generator=g)),
            "id": i,
        }


def train(model: torch.nn.Module, epochs: int):
    device = torch.device("cuda", 0)
    model = model.to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = DataLoader(Boxes(), batch_size=32, pin_memory=True, num_workers=4)
    for _ in range(epochs):
        for batch in StreamedLoader(loader, device):
            boxes, labels = batch["target"]
            out = model(batch["image"])
            loss = out.mean() * labels.float().mean() + boxes.square().mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()


if __name__ == "__main__":
    train(torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.ReLU()), 2)
