"""Loader thread with reusable device batches handed back through a queue with a marker."""
import queue
import threading

import torch
import torch.nn as nn


class DeviceBatch:
    def __init__(self, n, dim):
        self.cpu = torch.empty(n, dim, pin_memory=True)
        self.gpu = torch.empty(n, dim, device="cuda")
        self.filled = torch.cuda.Event()
        self.used = torch.cuda.Event()


class Loader(threading.Thread):
    def __init__(self, source, n, dim, count):
        super().__init__(daemon=True)
        self.source = source
        self.free, self.full = queue.Queue(), queue.Queue()
        for _ in range(count):
            b = DeviceBatch(n, dim)
            b.used.record()
            self.free.put(b)
        self.stream = torch.cuda.Stream()

    def run(self):
        for data in self.source:
            b = self.free.get()
            b.filled.synchronize()
            b.cpu.copy_(data)
            with torch.cuda.stream(self.stream):
                b.used.wait()
                b.gpu.copy_(b.cpu, non_blocking=True)
                b.filled.record()
            self.full.put(b)
        self.full.put(None)

    def __iter__(self):
        while (b := self.full.get()) is not None:
            b.filled.wait()
            yield b.gpu
            b.used.record()
            self.free.put(b)


class AutoEncoder(nn.Module):
    def __init__(self, dim, code):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(dim, 2048), nn.ReLU(), nn.Linear(2048, code))
        self.dec = nn.Sequential(nn.Linear(code, 2048), nn.ReLU(), nn.Linear(2048, dim))

    def forward(self, x):
        return self.dec(self.enc(x))


def source(steps, n, dim):
    g = torch.Generator().manual_seed(4)
    basis = torch.randn(16, dim, generator=g)
    for _ in range(steps):
        yield torch.randn(n, 16, generator=g) @ basis


def train(loader, model, opt):
    history = []
    for x in loader:
        loss = nn.functional.mse_loss(model(x), x)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        history.append(loss.detach())
    return torch.stack(history)


def main():
    n, dim = 1024, 1024
    model = AutoEncoder(dim, 32).cuda()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = Loader(source(80, n, dim), n, dim, count=2)
    loader.start()
    losses = train(loader, model, opt)
    loader.join()
    print(losses[0].item(), losses[-1].item())


if __name__ == "__main__":
    main()
