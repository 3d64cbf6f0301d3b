import argparse

import torch
import torch.nn.functional as F
from torch import nn

from hostopt import GradSpill, HostAdam, Lane


class Trainer:
    def __init__(self, model, device):
        self.model = model
        self.device = device
        self.lane = Lane(device)
        self.spill = GradSpill(model.parameters(), self.lane)
        self.optimizer = HostAdam(self.spill, lr=2e-4)

    def batch(self, size, dim):
        x = torch.randn(size, dim, device=self.device)
        return x, x.flip(1).tanh()

    def train_step(self, size, dim):
        x, y = self.batch(size, dim)
        loss = F.mse_loss(self.model(x), y)
        loss.backward()
        self.spill()
        self.optimizer.step()
        self.optimizer.publish()
        self.lane.rejoin()
        self.model.zero_grad(set_to_none=False)
        return loss.detach()


def main(steps=300, dim=4096):
    device = torch.device("cuda", 0)
    torch.cuda.set_device(device)
    model = nn.Sequential(
        nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim), nn.GELU(), nn.Linear(dim, dim),
    ).to(device)
    trainer = Trainer(model, device)
    for step in range(steps):
        loss = trainer.train_step(128, dim)
        if step % 50 == 0:
            print(step, loss.item())


def parse():
    parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--dim", type=int, default=4096)
    return parser.parse_args()


if __name__ == "__main__":
    main(**vars(parse()))
