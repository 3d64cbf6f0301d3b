import torch
from torch import nn

from averager import GradAverager
from clip import Clipper


def model(width=1024, depth=6):
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, width), nn.GELU()]
    return nn.Sequential(*layers, nn.Linear(width, 1)).to("cuda")


def train(steps=100, micro=4):
    net = model()
    opt = torch.optim.SGD(net.parameters(), lr=1e-2)
    averager = GradAverager(net.parameters(), micro)
    clipper = Clipper(net.parameters(), 0.5)
    norms = []
    for _ in range(steps):
        x = torch.randn(micro * 256, 1024, device="cuda")
        loss = net(x).pow(2).mean() * micro
        loss.backward()
        norms.append(clipper.measure())
        averager.finish()
        clipper.apply()
        opt.step()
        opt.zero_grad(set_to_none=True)
    return torch.stack(norms).tolist()


if __name__ == "__main__":
    print(train()[-5:])
