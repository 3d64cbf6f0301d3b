import torch
from torch import nn


class Epochs:
    """Wraps a loader and repeats it."""

    def __init__(self, loader, times):
        self.loader = loader
        self.times = times

    def __iter__(self):
        for _ in range(self.times):
            yield from self.loader


class Pinned:
    def __init__(self, data, size):
        self.data = data
        self.size = size

    def __iter__(self):
        for chunk in self.data.split(self.size):
            yield chunk.pin_memory()


class StaticSlots:
    """Two fixed device slots; the batch that it yields is good until the next one is asked for."""

    def __init__(self, loader, size, width, enabled=True):
        self.loader = loader
        self.enabled = enabled
        if enabled:
            self.stream = torch.cuda.Stream()
            self.slots = [torch.empty(size, width, device="cuda") for _ in range(2)]
            self.filled = [torch.cuda.Event(), torch.cuda.Event()]
            self.stream.wait_stream(torch.cuda.current_stream())

    def _fill(self, n, host):
        with torch.cuda.stream(self.stream):
            self.slots[n].copy_(host, non_blocking=True)
            self.filled[n].record(self.stream)

    def __iter__(self):
        if not self.enabled:
            for host in self.loader:
                yield host.cuda()
            return
        it = iter(self.loader)
        host = next(it, None)
        n = 0
        self.stream.wait_stream(torch.cuda.current_stream())
        if host is not None:
            self._fill(n, host)
        while host is not None:
            now = torch.cuda.current_stream()
            host = next(it, None)
            if host is not None:
                self._fill(1 - n, host)
            now.wait_event(self.filled[n])
            yield self.slots[n]
            self.stream.wait_stream(torch.cuda.current_stream())
            n = 1 - n


def main():
    torch.manual_seed(0)
    data = torch.randn(64 * 40, 96)
    net = nn.Linear(96, 96).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=1e-2)
    for enabled in (False, True):
        loader = Pinned(data, 64)
        loader = StaticSlots(loader, 64, 96, enabled)
        loader = Epochs(loader, 2)
        for x in loader:
            loss = (net(x) - x).square().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(enabled, loss.item())


if __name__ == "__main__":
    main()
