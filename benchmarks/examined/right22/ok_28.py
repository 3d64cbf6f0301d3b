import torch
from torch import nn


def batches(n, size, width):
    gen = torch.Generator().manual_seed(2)
    for _ in range(n):
        yield torch.randn(size, width, generator=gen).pin_memory()


def staged(source, stream):
    """Everything that the caller does with a batch runs in the stream that is entered here."""
    outer = torch.cuda.current_stream()
    stream.wait_stream(outer)
    with torch.cuda.stream(stream):
        for host in source:
            yield host.to("cuda", non_blocking=True)
    outer.wait_stream(stream)


class Meter:
    def __init__(self):
        self.sum = torch.zeros((), device="cuda")
        self.n = 0

    def add(self, loss):
        self.sum.add_(loss.detach())
        self.n += 1

    def mean(self):
        return (self.sum / max(self.n, 1)).item()


class Runner:
    def __init__(self, width):
        self.net = nn.Sequential(nn.Linear(width, 4 * width), nn.ReLU(), nn.Linear(4 * width, width)).cuda()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=1e-3)
        self.meter = Meter()

    def consume(self, xs):
        for x in xs:
            loss = (self.net(x) - x.abs()).square().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.meter.add(loss)

    def weight_norm(self):
        with torch.no_grad():
            return torch.stack([p.norm() for p in self.net.parameters()]).norm().item()


def main():
    runner = Runner(128)
    stream = torch.cuda.Stream()
    for epoch in range(3):
        runner.consume(staged(batches(30, 64, 128), stream))
        print(epoch, runner.meter.mean(), runner.weight_norm())


if __name__ == "__main__":
    main()
