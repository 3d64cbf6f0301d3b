import torch
from torch import nn

from readback import HostMirror
from report import Report

NAMES = ["loss", "weight_norm", "grad_norm"]


def summarize(loss, net):
    params = list(net.parameters())
    weight = torch.stack([p.detach().norm() for p in params]).norm()
    grad = torch.stack([p.grad.norm() for p in params]).norm()
    return torch.stack([loss.detach(), weight, grad])


def main(steps=200):
    net = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 10)).to("cuda")
    opt = torch.optim.SGD(net.parameters(), lr=1e-2)
    report = Report(HostMirror((len(NAMES),)), NAMES)
    for step in range(steps):
        x = torch.randn(512, 256, device="cuda")
        y = torch.randint(0, 10, (512,), device="cuda")
        opt.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        scores = summarize(loss, net)
        report.add(step, scores)
    print(report.close("report.jsonl", scores), "rows")


if __name__ == "__main__":
    main()
