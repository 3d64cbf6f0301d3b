"""Prefetching data layer with a free/full queue pair."""
import queue
import threading

import torch
import torch.nn as nn


class Batch:
    def __init__(self, shape, classes):
        self.cpu = torch.empty(shape, pin_memory=True)
        self.gpu = torch.empty(shape, device="cuda")
        self.label = torch.empty(shape[0], dtype=torch.long)
        self.classes = classes


class PrefetchThread(threading.Thread):
    def __init__(self, reader, free, full):
        super().__init__(daemon=True)
        self.reader = reader
        self.free, self.full = free, full
        self.stop = threading.Event()

    def load_batch(self, batch):
        data, label = next(self.reader)
        batch.cpu.copy_(data)
        batch.label.copy_(label)

    def run(self):
        stream = torch.cuda.Stream()
        while not self.stop.is_set():
            try:
                batch = self.free.get(timeout=0.1)
            except queue.Empty:
                continue
            try:
                self.load_batch(batch)
            except StopIteration:
                self.full.put(None)
                return
            with torch.cuda.stream(stream):
                batch.gpu.copy_(batch.cpu, non_blocking=True)
            stream.synchronize()
            self.full.put(batch)


class DataLayer:
    def __init__(self, reader, shape, classes, prefetch_count=1):
        self.free = queue.Queue()
        self.full = queue.Queue()
        for _ in range(prefetch_count):
            self.free.put(Batch(shape, classes))
        torch.cuda.synchronize()
        self.thread = PrefetchThread(reader, self.free, self.full)
        self.thread.start()

    def forward(self):
        batch = self.full.get()
        if batch is None:
            return None
        data = torch.empty_like(batch.gpu)
        data.copy_(batch.gpu)
        label = batch.label.clone()
        self.free.put(batch)
        return data, label

    def close(self):
        self.thread.stop.set()
        self.thread.join()


def reader(n, shape, classes):
    g = torch.Generator().manual_seed(1)
    for _ in range(n):
        y = torch.randint(0, classes, (shape[0],), generator=g)
        x = torch.randn(shape, generator=g) + y.view(-1, 1, 1, 1)
        yield x, y


def main():
    shape, classes = (64, 3, 64, 64), 10
    net = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1),
                        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, classes)).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    layer = DataLayer(reader(60, shape, classes), shape, classes)
    losses = []
    while True:
        got = layer.forward()
        if got is None:
            break
        x, y = got
        loss = nn.functional.cross_entropy(net(x), y.pin_memory().cuda(non_blocking=True))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    layer.close()
    print(torch.stack(losses)[-5:].tolist())


if __name__ == "__main__":
    main()
