import torch


class HostAdam:
    def __init__(self, flat, lr=1e-3, betas=(0.9, 0.98), eps=1e-8):
        self.master = flat.cpu()
        self.m = torch.zeros_like(self.master)
        self.v = torch.zeros_like(self.master)
        self.lr, self.betas, self.eps = lr, betas, eps
        self.t = 0

    def __call__(self, grad):
        self.t += 1
        b1, b2 = self.betas
        self.m.lerp_(grad, 1 - b1)
        self.v.mul_(b2).addcmul_(grad, grad, value=1 - b2)
        m = self.m / (1 - b1 ** self.t)
        v = self.v / (1 - b2 ** self.t)
        self.master -= self.lr * m / (v.sqrt() + self.eps)
        return self.master.clone()
