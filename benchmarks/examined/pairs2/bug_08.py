"""Dynamic loss scaling with an overflow probe for partitioned gradients."""
import torch
import torch.nn as nn


class OverflowProbe:
    def __init__(self):
        self.async_buffer = torch.zeros(1, pin_memory=True)

    def has_inf_or_nan(self, grad):
        total = grad.float().sum().view(1)
        cpu_sum = float(self.async_buffer.copy_(total, non_blocking=True))
        return cpu_sum in (float("inf"), -float("inf")) or cpu_sum != cpu_sum


class Fp16Optimizer:
    def __init__(self, inner, scale=2.0 ** 14):
        self.inner = inner
        self.loss_scale = scale
        self.probe = OverflowProbe()
        self.skipped = 0

    @property
    def params(self):
        for group in self.inner.param_groups:
            yield from group["params"]

    def backward(self, loss):
        (loss.float() * self.loss_scale).backward()

    def step(self):
        if any(self.probe.has_inf_or_nan(p.grad) for p in self.params):
            self.loss_scale = max(self.loss_scale / 2, 1.0)
            self.skipped += 1
            return False
        for p in self.params:
            p.grad.div_(self.loss_scale)
        self.inner.step()
        return True


def train():
    net = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 16)).half().cuda()
    opt = Fp16Optimizer(torch.optim.SGD(net.parameters(), lr=1e-3))
    for _ in range(300):
        x = torch.randn(32, 1024, device="cuda", dtype=torch.half)
        net.zero_grad()
        opt.backward(net(x).pow(2).mean())
        opt.step()
    print("skipped", opt.skipped)


train()
