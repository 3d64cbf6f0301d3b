import argparse

import torch
import torch.nn.functional as F
from torch import nn

from optim import FlatMomentum
from snapshotter import Snapshotter


def main(steps=600, every=20):
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Linear(2048, 8192), nn.ReLU(), nn.Linear(8192, 2048),
    ).cuda()
    opt = FlatMomentum(net.parameters(), lr=1e-2)
    shots = Snapshotter(opt.flat, "weights")
    opt.before_update.append(shots.guard)
    for step in range(steps):
        x = torch.randn(512, 2048, device="cuda")
        loss = F.mse_loss(net(x), x.abs())
        loss.backward()
        opt.step()
        if step % every == every - 1:
            shots.begin(step)
    shots.close()
    print("final loss", loss.item())


def parse():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--every", type=int, default=20)
    return parser.parse_args()


if __name__ == "__main__":
    main(**vars(parse()))
