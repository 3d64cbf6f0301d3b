import argparse

import torch
import torch.nn.functional as F
from torch import nn

from ema import Ema
from evaluator import Evaluator


class Mixer(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.up = nn.ModuleList(nn.Linear(dim, 4 * dim) for _ in range(depth))
        self.down = nn.ModuleList(nn.Linear(4 * dim, dim) for _ in range(depth))

    def forward(self, x):
        for n, u, d in zip(self.norm, self.up, self.down):
            x = x + d(F.gelu(u(n(x))))
        return x


def draw(n, dim, seed):
    g = torch.Generator(device="cuda").manual_seed(seed)
    x = torch.randn(n, dim, device="cuda", generator=g)
    return x, x.roll(1, dims=1).cumsum(1) / dim ** 0.5


def main(steps=1000, dim=1024):
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        module = Mixer(dim, 6).cuda()
        ema = Ema(module)
        optimizer = torch.optim.Adam(module.parameters(), lr=2e-4)
        judge = Evaluator(F.mse_loss, [draw(256, dim, 10_000 + k) for k in range(8)])
        curve = []
        for step in range(steps):
            x, y = draw(256, dim, step)
            loss = F.mse_loss(module(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema.update()
            if step % 50 == 49:
                with ema.applied() as averaged:
                    curve.append(judge(averaged))
    stream.synchronize()
    for k, value in enumerate(curve):
        print(50 * (k + 1), round(value.item(), 5))


def parse():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--dim", type=int, default=1024)
    return parser.parse_args()


if __name__ == "__main__":
    main(**vars(parse()))
