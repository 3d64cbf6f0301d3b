import torch
from torch import nn


class NormWatcher:
    """Sums squared gradients aside, while the backward pass goes on."""

    def __init__(self, params):
        self.params = [p for p in params if p.requires_grad]
        self.side = torch.cuda.Stream()
        self.total = torch.zeros((), device="cuda")
        self.handles = [p.register_post_accumulate_grad_hook(self._saw) for p in self.params]

    def _saw(self, p):
        self.side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.side):
            self.total.add_(p.grad.float().square().sum())

    def join(self):
        torch.cuda.current_stream().wait_stream(self.side)
        return self.total

    def remove(self):
        for h in self.handles:
            h.remove()


class ClippedOptimizer:
    def __init__(self, opt, watcher, limit):
        self.opt = opt
        self.watcher = watcher
        self.limit = limit
        self.history = []

    @property
    def param_groups(self):
        return self.opt.param_groups

    def zero_grad(self):
        self.opt.zero_grad(set_to_none=True)

    def step(self):
        total = self.watcher.join()
        norm = total.sqrt()
        scale = (self.limit / (norm + 1e-6)).clamp(max=1.0)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.mul_(scale)
        self.opt.step()
        self.history.append(norm)
        total.zero_()


def train(model, steps):
    watcher = NormWatcher(model.parameters())
    opt = ClippedOptimizer(torch.optim.Adam(model.parameters(), lr=1e-3), watcher, 1.0)
    for _ in range(steps):
        x = torch.randn(128, 64, device="cuda")
        loss = nn.functional.smooth_l1_loss(model(x), x.roll(1, -1))
        loss.backward()
        opt.step()
        opt.zero_grad()
    watcher.remove()
    return torch.stack(opt.history)


def main():
    model = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.SiLU()) for _ in range(6)]).cuda()
    norms = train(model, 60)
    print(norms.mean().item(), norms.max().item())


if __name__ == "__main__":
    main()
