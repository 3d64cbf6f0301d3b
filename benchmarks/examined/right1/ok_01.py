"""Loader wrapper that uploads and normalises nested batches ahead of the training step."""
from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def apply_to_tensors(fn, batch):
    if isinstance(batch, torch.Tensor):
        return fn(batch)
    if isinstance(batch, Mapping):
        return {k: apply_to_tensors(fn, v) for k, v in batch.items()}
    if isinstance(batch, Sequence) and not isinstance(batch, str):
        return [apply_to_tensors(fn, v) for v in batch]
    return batch


def mark_used_on(batch, stream):
    def mark(t):
        t.record_stream(stream)
        return t

    return apply_to_tensors(mark, batch)


class RandomPairs(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return {
            "views": [
                torch.randint(0, 255, (3, 96, 96), generator=g, dtype=torch.uint8),
                torch.randint(0, 255, (3, 96, 96), generator=g, dtype=torch.uint8),
            ],
            "meta": {"label": i % 10, "weight": torch.rand((), generator=g)},
        }


class PrefetchedLoader:
    def __init__(self, loader, device):
        self.loader = loader
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)

    def __len__(self):
        return len(self.loader)

    def _to_device(self, t):
        t = t.to(self.device, non_blocking=True)
        return t.float().div_(255.0) if t.dtype == torch.uint8 else t

    def _upload(self, it):
        host = next(it, None)
        if host is None:
            return None
        with torch.cuda.stream(self.stream):
            return apply_to_tensors(self._to_device, host)

    def __iter__(self):
        it = iter(self.loader)
        upcoming = self._upload(it)
        while upcoming is not None:
            consumer = torch.cuda.current_stream(self.device)
            consumer.wait_stream(self.stream)
            batch = mark_used_on(upcoming, consumer)
            upcoming = self._upload(it)
            yield batch


def train(epochs=2):
    loader = DataLoader(RandomPairs(), batch_size=128, num_workers=4, pin_memory=True, drop_last=True)
    batches = PrefetchedLoader(loader, "cuda:0")
    model = nn.Sequential(nn.Conv2d(3, 32, 5, stride=4), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10)).cuda()
    model(torch.zeros(1, 3, 96, 96, device="cuda"))
    opt = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(epochs):
        total = torch.zeros((), device="cuda")
        for batch in batches:
            left, right = batch["views"]
            target = batch["meta"]["label"]
            loss = nn.functional.cross_entropy(model(left), target, reduction="none")
            loss = loss + nn.functional.cross_entropy(model(right), target, reduction="none")
            loss = (loss * batch["meta"]["weight"]).mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.detach()
        print(epoch, total.item() / len(batches))


if __name__ == "__main__":
    train()
