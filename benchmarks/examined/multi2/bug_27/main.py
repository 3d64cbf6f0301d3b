import torch
import torch.nn as nn

from buckets import make_buckets
from hostopt import HostSGD
from shuttle import Shuttle
from trainer import Trainer


def batches(width, device):
    gen = torch.Generator(device).manual_seed(1)
    while True:
        x = torch.randn(256, width, device=device, generator=gen)
        yield x, x.roll(1, dims=1)


def main():
    device = "cuda"
    width = 2048
    model = nn.Sequential(*[
        nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(6)
    ]).to(device)
    buckets = make_buckets(model)
    opt = HostSGD(buckets, Shuttle(rounds=3), delay=2)
    trainer = Trainer(model, opt)
    print(trainer.fit(batches(width, device), turns=50))


if __name__ == "__main__":
    main()
