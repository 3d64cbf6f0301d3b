import torch
from torch import nn


class HostMomentAdam:
    """Adam whose moments live in pinned host memory; uses the groups of a plain optimizer."""

    def __init__(self, inner, betas=(0.9, 0.999), eps=1e-8):
        self.inner = inner
        self.param_groups = inner.param_groups
        self.betas = betas
        self.eps = eps
        self.t = 0
        self.copy = torch.cuda.Stream()
        self.state = {}
        most = 0
        for p in self._params():
            self.state[p] = torch.zeros(2, p.numel()).pin_memory()
            most = max(most, p.numel())
        self.stage = [torch.empty(2, most, device="cuda") for _ in range(2)]

    def _params(self):
        for g in self.param_groups:
            yield from g["params"]

    def zero_grad(self):
        for p in self._params():
            p.grad = None

    def _up(self, i, p):
        with torch.cuda.stream(self.copy):
            self.stage[i % 2][:, : p.numel()].copy_(self.state[p], non_blocking=True)
            return self.copy.record_event()

    def _down(self, i, p, done):
        self.copy.wait_event(done)
        with torch.cuda.stream(self.copy):
            self.state[p].copy_(self.stage[i % 2][:, : p.numel()], non_blocking=True)

    @torch.no_grad()
    def step(self):
        self.t += 1
        b1, b2 = self.betas
        main = torch.cuda.current_stream()
        self.copy.wait_stream(main)
        work = [(g["lr"], p) for g in self.param_groups for p in g["params"] if p.grad is not None]
        ready = self._up(0, work[0][1])
        for i, (lr, p) in enumerate(work):
            following = self._up(i + 1, work[i + 1][1]) if i + 1 < len(work) else None
            main.wait_event(ready)
            m, v = self.stage[i % 2][:, : p.numel()]
            g = p.grad.reshape(-1)
            m.mul_(b1).add_(g, alpha=1 - b1)
            v.mul_(b2).addcmul_(g, g, value=1 - b2)
            hat = (v / (1 - b2 ** self.t)).sqrt_().add_(self.eps)
            p.sub_((lr / (1 - b1 ** self.t)) * (m / hat).view_as(p))
            self._down(i, p, main.record_event())
            ready = following


def main():
    model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).cuda()
    opt = HostMomentAdam(torch.optim.SGD(model.parameters(), lr=1e-3))
    for _ in range(50):
        x = torch.randn(32, 256, device="cuda")
        loss = (model(x) - x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.cuda.synchronize()
    print(loss.item(), sum(float(s.norm()) for s in opt.state.values()))


if __name__ == "__main__":
    main()
