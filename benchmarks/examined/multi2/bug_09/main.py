import torch
from torch import nn

from offopt import make_offloaded
from trainer import Trainer


def data(n, batch=256, dim=2048):
    gen = torch.Generator(device="cuda").manual_seed(0)
    w = torch.randn(dim, 1, device="cuda", generator=gen) / dim ** 0.5
    for _ in range(n):
        x = torch.randn(batch, dim, device="cuda", generator=gen)
        yield x, torch.sin(x @ w)


def smooth(values, k=20):
    out = []
    for i in range(len(values)):
        part = values[max(0, i - k + 1):i + 1]
        out.append(sum(part) / len(part))
    return out


def main():
    torch.cuda.set_device(0)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(2048, 8192), nn.GELU(),
        nn.Linear(8192, 8192), nn.GELU(),
        nn.Linear(8192, 1),
    ).cuda()
    trainer = Trainer(model, make_offloaded(model, lr=2e-4), nn.MSELoss())
    hist = trainer.fit(data(200))
    print("last", smooth(hist)[-1])


if __name__ == "__main__":
    main()
