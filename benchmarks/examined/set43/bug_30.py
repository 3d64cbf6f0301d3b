"""Node graph style data loading with a background to-device node."""
import queue
import threading

import torch
import torch.nn as nn


class Node:
    def __iter__(self):
        raise NotImplementedError


class Samples(Node):
    def __init__(self, n, shape, classes, seed=0):
        self.n, self.shape, self.classes, self.seed = n, shape, classes, seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        for _ in range(self.n):
            yield (torch.randn(self.shape, generator=g),
                   int(torch.randint(self.classes, (1,), generator=g)))


class Batcher(Node):
    def __init__(self, src, size):
        self.src, self.size = src, size

    def __iter__(self):
        xs, ys = [], []
        for x, y in self.src:
            xs.append(x)
            ys.append(y)
            if len(xs) == self.size:
                yield {"x": torch.stack(xs), "y": torch.tensor(ys)}
                xs, ys = [], []


class PinMemory(Node):
    def __init__(self, src):
        self.src = src

    def __iter__(self):
        for batch in self.src:
            yield {k: v.pin_memory() for k, v in batch.items()}


class ToDevice(Node):
    """Transfers batches from a worker thread with its own stream."""

    def __init__(self, src, device, depth=2):
        self.src = src
        self.device = torch.device(device)
        self.depth = depth

    def _work(self, out, stop):
        torch.cuda.set_device(self.device)
        stream = torch.cuda.Stream(self.device)
        keep = []
        try:
            with torch.cuda.stream(stream):
                for batch in self.src:
                    if stop.is_set():
                        return
                    moved = {k: v.to(self.device, non_blocking=True) for k, v in batch.items()}
                    keep.append((batch, moved))
                    out.put(moved)
            out.put(None)
        finally:
            stop.wait()
            keep.clear()

    def __iter__(self):
        out = queue.Queue(self.depth)
        stop = threading.Event()
        worker = threading.Thread(target=self._work, args=(out, stop), daemon=True)
        worker.start()
        try:
            while True:
                item = out.get()
                if item is None:
                    break
                yield item
            torch.cuda.synchronize(self.device)
        finally:
            stop.set()


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(3, 32, 5, 2), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, 64, 3, 2), nn.BatchNorm2d(64), nn.ReLU(),
        )
        self.fc = nn.Linear(64, classes)

    def forward(self, x):
        return self.fc(self.conv(x).mean((2, 3)))


def train(loader, net, opt):
    net.train()
    total, seen = torch.zeros((), device="cuda"), 0
    for batch in loader:
        loss = nn.functional.cross_entropy(net(batch["x"]), batch["y"])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        total += loss.detach()
        seen += 1
    return (total / seen).item()


def main():
    torch.manual_seed(1)
    net = Net(10).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    loader = ToDevice(PinMemory(Batcher(Samples(2048, (3, 96, 96), 10), 64)), "cuda:0")
    for epoch in range(2):
        print(epoch, train(loader, net, opt))


if __name__ == "__main__":
    main()
