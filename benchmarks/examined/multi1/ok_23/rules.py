import torch

from host_optim import HostOptimizer


class HostAdam(HostOptimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), eps=1e-8):
        super().__init__(params)
        self.lr = lr
        self.betas = betas
        self.eps = eps
        self.m = [torch.zeros_like(w) for w in self.master]
        self.v = [torch.zeros_like(w) for w in self.master]

    def update(self, i, weight, grad):
        b1, b2 = self.betas
        self.m[i].mul_(b1).add_(grad, alpha=1 - b1)
        self.v[i].mul_(b2).addcmul_(grad, grad, value=1 - b2)
        mh = self.m[i] / (1 - b1 ** self.t)
        vh = self.v[i] / (1 - b2 ** self.t)
        weight.addcdiv_(mh, vh.sqrt_().add_(self.eps), value=-self.lr)


class HostSign(HostOptimizer):
    lr = 1e-4

    def update(self, i, weight, grad):
        weight.add_(grad.sign_(), alpha=-self.lr)
