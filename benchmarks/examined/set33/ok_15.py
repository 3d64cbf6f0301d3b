"""Prefetcher with preallocated device batches."""
import torch
from torch import nn


class DeviceSlot:
    def __init__(self, batch, dim, device):
        self.x = torch.empty((batch, dim), device=device)
        self.y = torch.empty(batch, dtype=torch.int64, device=device)
        self.uploaded = torch.cuda.Event()


class Prefetcher:
    """Yields device views of the batches of a loader."""

    def __init__(self, loader, batch, dim, device):
        self.loader = loader
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.slots = [DeviceSlot(batch, dim, self.device) for _ in range(2)]

    def _upload(self, slot, source):
        host = next(source, None)
        if host is None:
            return None
        x, y = host
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            slot.x[: len(x)].copy_(x, non_blocking=True)
            slot.y[: len(y)].copy_(y, non_blocking=True)
            slot.uploaded.record()
        return len(x)

    def __iter__(self):
        source = iter(self.loader)
        turn = 0
        size = self._upload(self.slots[turn], source)
        while size is not None:
            slot, other = self.slots[turn], self.slots[turn ^ 1]
            upcoming = self._upload(other, source)
            torch.cuda.current_stream(self.device).wait_event(slot.uploaded)
            yield slot.x[:size], slot.y[:size]
            turn ^= 1
            size = upcoming


class PinnedLoader:
    def __init__(self, x, y, batch):
        self.x, self.y, self.batch = x.pin_memory(), y.pin_memory(), batch

    def __iter__(self):
        for start in range(0, len(self.x), self.batch):
            yield self.x[start : start + self.batch], self.y[start : start + self.batch]


def fit(x, y, epochs=2, batch=512, device="cuda:0"):
    dim, classes = x.shape[1], int(y.max()) + 1
    model = nn.Sequential(nn.Linear(dim, 512), nn.ReLU(), nn.Linear(512, classes)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    feed = Prefetcher(PinnedLoader(x, y, batch), batch, dim, device)
    total = torch.zeros((), device=device)
    for _ in range(epochs):
        for bx, by in feed:
            loss = nn.functional.cross_entropy(model(bx), by)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            total += loss.detach()
    return total.item(), model


if __name__ == "__main__":
    features, labels = torch.randn(8192, 128), torch.randint(10, (8192,))
    print(fit(features, labels)[0])
