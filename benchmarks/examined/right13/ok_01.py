"""Device prefetcher that decodes and normalises images one batch ahead of training."""
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader


def tensors_in(obj):
    if isinstance(obj, torch.Tensor):
        yield obj
    elif isinstance(obj, Mapping):
        for value in obj.values():
            yield from tensors_in(value)
    elif isinstance(obj, (list, tuple)):
        for value in obj:
            yield from tensors_in(value)


class ImagePrefetcher:
    def __init__(self, loader, device, mean, std):
        self.loader = loader
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        with torch.cuda.stream(self.stream):
            self.mean = torch.tensor(mean, device=self.device).view(1, -1, 1, 1)
            self.inv_std = torch.tensor(std, device=self.device).view(1, -1, 1, 1).reciprocal_()

    def __len__(self):
        return len(self.loader)

    def _move(self, value):
        if isinstance(value, torch.Tensor):
            return value.to(self.device, non_blocking=True)
        if isinstance(value, Mapping):
            return {k: self._move(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._move(v) for v in value]
        return value

    def _stage(self, source):
        try:
            raw = next(source)
        except StopIteration:
            return None
        with torch.cuda.stream(self.stream):
            batch = self._move(raw)
            batch["image"] = (
                batch["image"].float().div_(255.0).sub_(self.mean).mul_(self.inv_std)
            )
            ready = torch.cuda.Event()
            ready.record()
        return batch, ready

    def __iter__(self):
        source = iter(self.loader)
        staged = self._stage(source)
        while staged is not None:
            batch, ready = staged
            staged = self._stage(source)
            consumer = torch.cuda.current_stream(self.device)
            consumer.wait_event(ready)
            for t in tensors_in(batch):
                t.record_stream(consumer)
            yield batch


def train_epoch(model, optimizer, dataset, device="cuda:0"):
    loader = DataLoader(dataset, batch_size=64, num_workers=4, pin_memory=True, drop_last=True)
    feed = ImagePrefetcher(loader, device, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    running = torch.zeros((), device=device)
    for batch in feed:
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(batch["image"]), batch["label"])
        loss.backward()
        optimizer.step()
        running += loss.detach()
    return (running / max(len(feed), 1)).item()
