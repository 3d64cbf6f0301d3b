"""Prefetching data layer: a worker uploads into a fixed set of device batches."""
import queue
import threading

import torch
from torch import nn


class PrefetchedBatch:
    def __init__(self, shape):
        self.host = torch.empty(shape, pin_memory=True)
        self.data = torch.empty(shape, device="cuda")


class DataLayer:
    PREFETCH_COUNT = 3

    def __init__(self, shape, source):
        self.free, self.full = queue.Queue(), queue.Queue()
        for _ in range(self.PREFETCH_COUNT):
            self.free.put(PrefetchedBatch(shape))
        self.top = torch.empty(shape, device="cuda")
        torch.cuda.synchronize()
        self.source = source
        self.worker = threading.Thread(target=self._internal_entry, daemon=True)
        self.worker.start()

    def _internal_entry(self):
        stream = torch.cuda.Stream()
        for sample in self.source:
            batch = self.free.get()
            batch.host.copy_(sample)
            with torch.cuda.stream(stream):
                batch.data.copy_(batch.host, non_blocking=True)
            stream.synchronize()
            self.full.put(batch)
        self.full.put(None)

    def forward(self):
        batch = self.full.get()
        if batch is None:
            return None
        self.top.copy_(batch.data)
        self.free.put(batch)
        return self.top


def samples(n, shape):
    for i in range(n):
        yield torch.full(shape, float(i))


def main():
    shape = (128, 3, 64, 64)
    layer = DataLayer(shape, samples(1000, shape))
    net = nn.Sequential(nn.Conv2d(3, 64, 3), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.AdaptiveAvgPool2d(1)).cuda()
    opt = torch.optim.SGD(net.parameters(), 1e-4)
    while (top := layer.forward()) is not None:
        loss = net(top).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
