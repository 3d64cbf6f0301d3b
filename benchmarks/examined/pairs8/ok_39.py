import threading

import torch


class WeightReloader(threading.Thread):
    def __init__(self, shapes, versions):
        super().__init__(daemon=True)
        self.shapes = shapes
        self.versions = versions
        self.stream = torch.cuda.Stream()
        self.fresh = threading.Event()
        self.taken = threading.Event()
        self.weights = None

    def _materialize(self, version):
        gen = torch.Generator().manual_seed(version)
        with torch.cuda.stream(self.stream):
            host = [torch.randn(s, generator=gen).pin_memory() for s in self.shapes]
            device = [h.to("cuda", non_blocking=True).mul_(0.02) for h in host]
        self.stream.synchronize()
        return device

    def run(self):
        for version in range(self.versions):
            self.weights = self._materialize(version)
            self.fresh.set()
            self.taken.wait()
            self.taken.clear()


class OnlineModel:
    def __init__(self, reloader):
        self.reloader = reloader
        self.weights = None
        self.version = 0

    def maybe_swap(self, block=False):
        if block:
            self.reloader.fresh.wait()
        if self.reloader.fresh.is_set():
            fresh = self.reloader.weights
            torch.cuda.current_stream().synchronize()
            self.weights = fresh
            self.version += 1
            self.reloader.fresh.clear()
            self.reloader.taken.set()

    def forward(self, x):
        for w in self.weights:
            x = torch.relu(x @ w)
        return x


def main():
    reloader = WeightReloader([(512, 1024), (1024, 512)], versions=4)
    reloader.start()
    model = OnlineModel(reloader)
    model.maybe_swap(block=True)
    acc = torch.zeros((), device="cuda")
    for _ in range(500):
        acc += model.forward(torch.ones(8, 512, device="cuda")).mean()
        model.maybe_swap()
    print(model.version, acc.item())


if __name__ == "__main__":
    main()
