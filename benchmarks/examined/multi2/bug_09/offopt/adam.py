import torch


class HostAdam:
    """Adam whose moments and master weights live on the CPU."""

    def __init__(self, lane, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        self.lane = lane
        self.lr, self.betas, self.eps = lr, betas, eps
        self.master = [p.detach().float().cpu().pin_memory() for p in lane.params]
        self.m = [torch.zeros_like(w, device="cpu") for w in self.master]
        self.v = [torch.zeros_like(w, device="cpu") for w in self.master]
        self.t = 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        c1, c2 = 1 - b1 ** self.t, 1 - b2 ** self.t
        for i in self.lane.arrived():
            g, w, m, v = self.lane.host_grads[i], self.master[i], self.m[i], self.v[i]
            m.mul_(b1).add_(g, alpha=1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            w.addcdiv_(m / c1, (v / c2).sqrt_().add_(self.eps), value=-self.lr)
            self.lane.params[i].data.copy_(w)

    def set_lr(self, lr):
        self.lr = lr

    def state_dict(self):
        return {
            "t": self.t,
            "lr": self.lr,
            "m": [x.clone() for x in self.m],
            "v": [x.clone() for x in self.v],
        }

    def load_state_dict(self, state):
        self.t = state["t"]
        self.lr = state["lr"]
        for mine, other in zip(self.m, state["m"]):
            mine.copy_(other)
        for mine, other in zip(self.v, state["v"]):
            mine.copy_(other)
