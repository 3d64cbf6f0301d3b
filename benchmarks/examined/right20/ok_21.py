import torch
from torch import nn


class HookedSGD(torch.optim.Optimizer):
    """Gradients are clipped and smoothed by the side stream as soon as they arrive."""

    def __init__(self, groups, lr=0.1, beta=0.9, limit=1.0):
        super().__init__(groups, dict(lr=lr, beta=beta, limit=limit))
        self.side = torch.cuda.Stream()
        self.ready = {}
        self.momentum = {}
        for group in self.param_groups:
            for p in group["params"]:
                self.momentum[p] = torch.zeros_like(p)
                p.register_post_accumulate_grad_hook(self._arrived(group))
        self.side.wait_stream(torch.cuda.current_stream())

    def _arrived(self, group):
        def hook(p):
            self.side.wait_stream(torch.cuda.current_stream())
            with torch.no_grad(), torch.cuda.stream(self.side):
                p.grad.clamp_(-group["limit"], group["limit"])
                self.momentum[p].mul_(group["beta"]).add_(p.grad)
            event = torch.cuda.Event()
            event.record(self.side)
            self.ready[p] = event

        return hook

    @torch.no_grad()
    def step(self, closure=None):
        here = torch.cuda.current_stream()
        for group in reversed(self.param_groups):
            for p in sorted(group["params"], key=lambda q: q.numel()):
                event = self.ready.pop(p, None)
                if event is None:
                    continue
                here.wait_event(event)
                p.add_(self.momentum[p], alpha=-group["lr"])
        assert not self.ready


def groups_of(model):
    decay, plain = [], []
    for p in model.parameters():
        (decay if p.ndim > 1 else plain).append(p)
    return [
        {"params": decay, "lr": 0.05},
        {"params": plain, "lr": 0.1, "limit": 0.5},
    ]


def main():
    model = nn.Sequential(
        nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    ).cuda()
    opt = HookedSGD(groups_of(model))
    for step in range(60):
        x = torch.randn(128, 128, device="cuda")
        y = x[:, :10].argmax(1)
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    main()
