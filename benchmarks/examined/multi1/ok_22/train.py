import torch
from torch import nn

from session import Session


def build():
    return nn.Sequential(
        nn.Linear(64, 512), nn.BatchNorm1d(512), nn.ReLU(), nn.Linear(512, 8)
    ).to("cuda")


def main(steps=600):
    net = build()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    ses = Session(net)
    proj = torch.randn(64, 8, device="cuda")
    for _ in range(steps):
        x = torch.randn(256, 64, device="cuda")
        y = (x @ proj).argmax(dim=1)
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ses.tick()
    paths = ses.close()
    for p in paths:
        state = torch.load(p)
        print(p, state["0.weight"].norm().item())


if __name__ == "__main__":
    main()
