"""Helper threads that adopt the caller's stream."""
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn


class AdoptingPool:
    def __init__(self, workers: int):
        self.pool = ThreadPoolExecutor(workers)

    def map(self, fn, items):
        stream = torch.cuda.current_stream()

        def run(item):
            torch.cuda.set_device(stream.device)
            with torch.cuda.stream(stream), torch.no_grad():
                return fn(item)

        return list(self.pool.map(run, items))


class MultiScale(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.pool = AdoptingPool(3)

    def branch(self, x, scale):
        y = nn.functional.interpolate(x, scale_factor=scale)
        return self.conv(y).mean((2, 3))

    def forward(self, x):
        parts = self.pool.map(lambda s: self.branch(x, s), (0.5, 1.0, 2.0))
        return torch.stack(parts).amax(0)


@torch.no_grad()
def main():
    net = MultiScale().cuda()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        acc = torch.zeros(8, device="cuda")
        for _ in range(10):
            acc += net(torch.rand(2, 3, 64, 64, device="cuda")).mean(0)
        print(acc.tolist())


if __name__ == "__main__":
    main()
