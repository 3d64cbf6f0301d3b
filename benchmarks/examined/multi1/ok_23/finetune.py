import torch
from torch import nn

from rules import HostAdam, HostSign

RULES = {"adam": HostAdam, "sign": HostSign}


def make(rule, net):
    return RULES[rule](net.parameters())


def run(rule, steps=300):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(16, 256), nn.GELU(), nn.Linear(256, 16)).to("cuda")
    opt = make(rule, net)
    last = None
    for step in range(steps):
        x = torch.randn(512, 16, device="cuda")
        loss = nn.functional.mse_loss(net(x), x.sort(dim=1).values)
        opt.zero_grad()
        loss.backward()
        opt.step()
        last = loss
        if step % 50 == 0:
            print(rule, step, loss.item())
    return last.item()


def main():
    scores = {rule: run(rule) for rule in RULES}
    print(min(scores, key=scores.get), scores)


if __name__ == "__main__":
    main()
