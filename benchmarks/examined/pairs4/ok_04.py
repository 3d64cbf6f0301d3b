"""Threaded loader that hands device batches to the trainer through a queue."""
import queue
import threading
from typing import NamedTuple

import torch
from torch import nn


class DeviceBatch(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor
    ready: torch.cuda.Event


class LoaderThread(threading.Thread):
    def __init__(self, source, out, device):
        super().__init__(daemon=True)
        self.source, self.out, self.device = source, out, device

    def run(self):
        torch.cuda.set_device(self.device)
        lane = torch.cuda.Stream(self.device)
        with torch.cuda.stream(lane):
            for x, y in self.source:
                dx = x.pin_memory().to(self.device, non_blocking=True)
                dy = y.pin_memory().to(self.device, non_blocking=True)
                dx = (dx - dx.mean(1, keepdim=True)) / dx.std(1, keepdim=True)
                ready = torch.cuda.Event()
                ready.record()
                self.out.put(DeviceBatch(dx, dy, ready))
        self.out.put(None)


def synthetic(n):
    for _ in range(n):
        yield torch.randn(512, 1024), torch.randint(0, 16, (512,))


def consume(batches):
    stream = torch.cuda.current_stream()
    while (item := batches.get()) is not None:
        stream.wait_event(item.ready)
        item.x.record_stream(stream)
        item.y.record_stream(stream)
        yield item.x, item.y


def main():
    device = torch.device("cuda", 0)
    batches = queue.Queue(maxsize=4)
    LoaderThread(synthetic(1000), batches, device).start()
    model = nn.Sequential(nn.Linear(1024, 2048), nn.GELU(), nn.Linear(2048, 16)).to(device)
    opt = torch.optim.Adam(model.parameters())
    for x, y in consume(batches):
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
