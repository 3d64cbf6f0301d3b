import torch


class FlatMomentum:
    """Momentum SGD on one flat parameter vector."""

    def __init__(self, params, lr, beta=0.9, before_update=()):
        params = list(params)
        self.flat = torch.cat([p.detach().reshape(-1) for p in params])
        self.grad = torch.zeros_like(self.flat)
        self.buf = torch.zeros_like(self.flat)
        self.lr, self.beta = lr, beta
        self.before_update = list(before_update)
        at = 0
        for p in params:
            n = p.numel()
            p.data = self.flat[at:at + n].view_as(p)
            p.grad = self.grad[at:at + n].view_as(p)
            at += n

    @torch.no_grad()
    def step(self):
        for call in self.before_update:
            call()
        self.buf.mul_(self.beta).add_(self.grad)
        self.flat.add_(self.buf, alpha=-self.lr)
        self.grad.zero_()

    def describe(self):
        return f"momentum {self.beta}, lr {self.lr}, {self.flat.numel():,} weights"

    def decay_lr(self, factor, floor=1e-6):
        self.lr = max(floor, self.lr * factor)
        return self.lr
