"""Prefetch nested batches to the GPU one step ahead."""
from collections.abc import Mapping, Sequence

import torch
from torch.utils.data import DataLoader, Dataset


def tree_map(fn, obj):
    if isinstance(obj, torch.Tensor):
        return fn(obj)
    if isinstance(obj, Mapping):
        return {k: tree_map(fn, v) for k, v in obj.items()}
    if isinstance(obj, Sequence) and not isinstance(obj, (str, bytes)):
        return [tree_map(fn, v) for v in obj]
    return obj


class GpuPrefetcher:
    def __init__(self, loader, device):
        self.loader = loader
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)

    def _move(self, t):
        t = t.to(self.device, non_blocking=True)
        return t.float().div_(255) if t.dtype == torch.uint8 else t

    def _load(self, it):
        batch = next(it, None)
        if batch is None:
            return None
        with torch.cuda.stream(self.stream):
            return tree_map(self._move, batch)

    def _claim(self, batch):
        stream = torch.cuda.current_stream(self.device)
        stream.wait_stream(self.stream)

        def keep(t):
            t.record_stream(stream)
            return t

        return tree_map(keep, batch)

    def __iter__(self):
        it = iter(self.loader)
        upcoming = self._load(it)
        while upcoming is not None:
            batch = self._claim(upcoming)
            upcoming = self._load(it)
            yield batch

    def __len__(self):
        return len(self.loader)


class Pairs(Dataset):
    def __len__(self):
        return 2048

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        img = torch.randint(0, 255, (3, 64, 64), dtype=torch.uint8, generator=g)
        return {"views": [img, img.flip(-1)], "meta": {"label": i % 10, "id": str(i)}}


def train(epochs=2, device="cuda:0"):
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 16, 5, stride=4), torch.nn.ReLU(),
        torch.nn.Flatten(), torch.nn.LazyLinear(10)).to(device)
    loader = DataLoader(Pairs(), batch_size=64, num_workers=2, pin_memory=True)
    net(torch.zeros(1, 3, 64, 64, device=device))
    opt = torch.optim.AdamW(net.parameters())
    for _ in range(epochs):
        total = torch.zeros((), device=device)
        for batch in GpuPrefetcher(loader, device):
            a, b = batch["views"]
            target = batch["meta"]["label"]
            loss = sum(torch.nn.functional.cross_entropy(net(v), target) for v in (a, b))
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.detach()
        print(total.item())


if __name__ == "__main__":
    train()
