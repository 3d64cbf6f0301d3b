"""Serving process that reloads adapter weights while requests are handled."""
import threading
import time

import torch
from torch import nn


class AdapterStore:
    """Latest adapter matrices; swapped by the loader thread."""

    def __init__(self, dim, rank):
        self.dim, self.rank = dim, rank
        self.lock = threading.Lock()
        self.down = torch.zeros(dim, rank, device="cuda")
        self.up = torch.zeros(rank, dim, device="cuda")
        torch.cuda.synchronize()

    def swap(self, down, up):
        with self.lock:
            self.down, self.up = down, up

    def current(self):
        with self.lock:
            return self.down, self.up


class ReloadThread(threading.Thread):
    def __init__(self, store, stop):
        super().__init__()
        self.store, self.stop = store, stop

    def run(self):
        stream = torch.cuda.Stream()
        version = 0
        while not self.stop.is_set():
            gen = torch.Generator().manual_seed(version)
            down = torch.randn(self.store.dim, self.store.rank, generator=gen).pin_memory()
            up = torch.randn(self.store.rank, self.store.dim, generator=gen).pin_memory()
            with torch.cuda.stream(stream):
                d = down.to("cuda", non_blocking=True) * 0.01
                u = up.to("cuda", non_blocking=True)
            stream.synchronize()
            self.store.swap(d, u)
            version += 1
            time.sleep(0.005)


class Server:
    def __init__(self, dim=4096, rank=64):
        self.base = nn.Linear(dim, dim).cuda().requires_grad_(False)
        self.store = AdapterStore(dim, rank)

    def handle(self, x):
        for _ in range(4):
            down, up = self.store.current()
            x = torch.tanh(self.base(x) + x @ down @ up)
        return x


def main(requests=3000):
    server = Server()
    stop = threading.Event()
    loader = ReloadThread(server.store, stop)
    loader.start()
    checks = []
    for i in range(requests):
        y = server.handle(torch.randn(512, 4096, device="cuda"))
        if i % 100 == 0:
            checks.append(y.mean())
    stop.set()
    loader.join()
    print(torch.stack(checks).tolist())


if __name__ == "__main__":
    main()
