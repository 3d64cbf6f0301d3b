"""Segmentation training with a device-side batch prefetcher."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class TileDataset(Dataset):
    def __init__(self, n=4096, size=256):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        image = torch.rand(3, self.size, self.size, generator=g)
        mask = (image.mean(0) > 0.5).long()
        return {"image": image, "mask": mask, "meta": {"weight": torch.ones(1)}}


def tree_map(fn, obj):
    if torch.is_tensor(obj):
        return fn(obj)
    if isinstance(obj, dict):
        return {k: tree_map(fn, v) for k, v in obj.items()}
    if isinstance(obj, (list, tuple)):
        return type(obj)(tree_map(fn, v) for v in obj)
    return obj


class DevicePrefetcher:
    """Keeps one batch ahead of the consumer."""

    def __init__(self, loader, device):
        self.loader = loader
        self.device = device
        self.stream = torch.cuda.Stream(device)

    def _fetch(self, it):
        batch = next(it, None)
        if batch is None:
            return None
        with torch.cuda.stream(self.stream):
            return tree_map(lambda t: t.to(self.device, non_blocking=True), batch)

    def __iter__(self):
        it = iter(self.loader)
        ahead = self._fetch(it)
        while ahead is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(self.stream)
            batch = ahead
            tree_map(lambda t: t.record_stream(current), batch)
            ahead = self._fetch(it)
            yield batch


def train(epochs=2):
    device = torch.device("cuda")
    loader = DataLoader(TileDataset(), batch_size=16, num_workers=4, pin_memory=True)
    net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 2, 1)).to(device)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    prefetcher = DevicePrefetcher(loader, device)
    for _ in range(epochs):
        for batch in prefetcher:
            out = net(batch["image"])
            loss = nn.functional.cross_entropy(out, batch["mask"], reduction="none")
            loss = (loss.mean((1, 2)) * batch["meta"]["weight"].squeeze(1)).mean()
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
    torch.cuda.synchronize()


if __name__ == "__main__":
    train()
