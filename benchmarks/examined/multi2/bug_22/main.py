import argparse
import functools

import torch
import torch.nn.functional as F

from model import Stack, param_groups, seed_all
from offload import OffloadLane, SavedOnHost


def main(dim=2048, depth=16, tokens=8192, steps=100):
    seed_all(0)
    lane = OffloadLane()
    model = Stack(dim, depth, saver=functools.partial(SavedOnHost, lane)).cuda()
    optimizer = torch.optim.AdamW(param_groups(model, 0.05), lr=1e-4)
    for step in range(steps):
        x = torch.randn(tokens, dim, device="cuda")
        loss = F.mse_loss(model(x), x.cumsum(1) / dim ** 0.5)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            print(step, loss.item(), lane.bytes_out >> 20, "MiB out")


def parse():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--dim", type=int, default=2048)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--steps", type=int, default=100)
    return parser.parse_args()


if __name__ == "__main__":
    main(**vars(parse()))
