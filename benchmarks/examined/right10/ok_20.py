"""Exponential moving average kept on its own stream beside training."""
import copy

import torch
from torch import nn


class SideEMA:
    def __init__(self, model: nn.Module, decay: float = 0.999):
        self.live = [p for p in model.parameters()]
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self.avg = list(self.shadow.parameters())
        self.decay = decay
        self.stream = torch.cuda.Stream()
        self._busy = False

    @torch.no_grad()
    def update(self):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            torch._foreach_mul_(self.avg, self.decay)
            torch._foreach_add_(self.avg, [p.detach() for p in self.live], alpha=1 - self.decay)
        self._busy = True

    def barrier(self):
        if self._busy:
            torch.cuda.current_stream().wait_stream(self.stream)
            self._busy = False

    def __enter__(self):
        self.barrier()
        return self.shadow

    def __exit__(self, *exc):
        self.stream.wait_stream(torch.cuda.current_stream())


class Trainer:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(256, 1024), nn.Mish(), nn.Linear(1024, 10)).cuda()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.ema = SideEMA(self.model)

    def step(self, x, y):
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.ema.barrier()
        self.opt.step()
        self.opt.zero_grad()
        self.ema.update()
        return loss

    @torch.no_grad()
    def evaluate(self, x, y):
        with self.ema as net:
            return (net(x).argmax(-1) == y).float().mean().item()


def main():
    t = Trainer()
    for i in range(300):
        x = torch.randn(64, 256, device="cuda")
        y = torch.randint(0, 10, (64,), device="cuda")
        t.step(x, y)
        if i % 100 == 99:
            print(i, t.evaluate(x, y))


if __name__ == "__main__":
    main()
