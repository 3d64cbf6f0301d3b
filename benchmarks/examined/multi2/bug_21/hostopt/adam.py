import torch


class HostAdam:
    """Adam whose states and master weights live on the host."""

    def __init__(self, spill, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.spill = spill
        self.lr, self.betas, self.eps = lr, betas, eps
        self.master = [p.detach().float().cpu().pin_memory() for p in spill.params]
        self.m = [torch.zeros_like(h, pin_memory=False) for h in self.master]
        self.v = [torch.zeros_like(h, pin_memory=False) for h in self.master]
        self.t = 0

    @torch.no_grad()
    def step(self):
        self.spill.lane.settle()
        self.t += 1
        b1, b2 = self.betas
        c1, c2 = 1 - b1 ** self.t, 1 - b2 ** self.t
        for g, w, m, v in zip(self.spill.host, self.master, self.m, self.v):
            m.lerp_(g, 1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            w.addcdiv_(m / c1, (v / c2).sqrt_().add_(self.eps), value=-self.lr)

    @torch.no_grad()
    def publish(self):
        for p, w in zip(self.spill.params, self.master):
            p.copy_(w, non_blocking=True)

    def hyper(self):
        return {"lr": self.lr, "betas": self.betas, "eps": self.eps, "t": self.t}

    def scale_lr(self, factor):
        self.lr *= factor
        return self.lr
