"""Graphed training of a matrix factorization; temperature and rate are fed through pinned memory."""
import torch
import torch.nn as nn


class Hyper:
    NAMES = ("lr", "temperature")

    def __init__(self):
        self.host = torch.zeros(len(self.NAMES), pin_memory=True)
        self.device = torch.zeros(len(self.NAMES), device="cuda")

    def set(self, **values):
        for name, value in values.items():
            self.host[self.NAMES.index(name)] = value

    def push(self):
        self.device.copy_(self.host, non_blocking=True)

    def __getattr__(self, name):
        if name in Hyper.NAMES:
            return self.device[Hyper.NAMES.index(name)]
        raise AttributeError(name)


class Factorization:
    def __init__(self, target, rank=64):
        n, m = target.shape
        self.target = target
        self.u = (0.1 * torch.randn(n, rank, device="cuda")).requires_grad_()
        self.v = (0.1 * torch.randn(m, rank, device="cuda")).requires_grad_()
        self.hyper = Hyper()

    def step(self):
        self.hyper.push()
        logits = (self.u @ self.v.t()) / self.hyper.temperature
        loss = nn.functional.binary_cross_entropy_with_logits(logits, self.target)
        gu, gv = torch.autograd.grad(loss, (self.u, self.v))
        with torch.no_grad():
            self.u.sub_(self.hyper.lr * gu)
            self.v.sub_(self.hyper.lr * gv)

    def capture(self):
        self.hyper.set(lr=0.0, temperature=1.0)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step()
        side.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.step()


def main(steps=3000):
    target = (torch.rand(4096, 4096, device="cuda") < 0.01).float()
    model = Factorization(target)
    model.capture()
    for i in range(steps):
        model.hyper.set(lr=2.0 * (1 - i / steps), temperature=max(0.1, 1 - i / steps))
        model.graph.replay()
    torch.cuda.synchronize()
    torch.save((model.u.detach().cpu(), model.v.detach().cpu()), "factors.pt")


if __name__ == "__main__":
    main()
