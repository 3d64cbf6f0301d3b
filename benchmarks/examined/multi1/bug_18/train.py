import torch
from torch import nn

import ema


def batch(rows=512):
    x = torch.randn(rows, 784, device="cuda")
    return x, x[:, :10].argmax(dim=1)


@torch.no_grad()
def validate(model, rounds=4):
    hits = 0
    for _ in range(rounds):
        x, y = batch(2048)
        hits += (model(x).argmax(dim=1) == y).sum().item()
    return hits / (rounds * 2048)


def train(epochs=3, steps=100):
    model = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(), nn.Linear(4096, 10)).to("cuda")
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    shadow = ema.make_shadow(model)
    for epoch in range(epochs):
        for _ in range(steps):
            x, y = batch()
            opt.zero_grad(set_to_none=True)
            nn.functional.cross_entropy(model(x), y).backward()
            ema.settle()
            opt.step()
            ema.update(shadow, model, 0.995)
        with ema.swapped(model, shadow):
            print(epoch, validate(model))


if __name__ == "__main__":
    train()
