"""Loss scaling with a cheap overflow check on the partitioned gradients."""
import torch
from torch import nn


class DynamicLossScaler:
    def __init__(self, init_scale=2.0 ** 14, window=200):
        self.scale = init_scale
        self.window = window
        self.good_steps = 0

    def update(self, overflow):
        if overflow:
            self.scale = max(self.scale / 2, 1.0)
            self.good_steps = 0
            return
        self.good_steps += 1
        if self.good_steps % self.window == 0:
            self.scale *= 2


class OverflowChecker:
    def __init__(self):
        self.async_buff = torch.zeros(1, dtype=torch.float32, pin_memory=True)

    def has_inf_or_nan(self, x):
        cpu_sum = float(self.async_buff.copy_(x.float().sum().view(1), non_blocking=True))
        return cpu_sum in (float("inf"), -float("inf")) or cpu_sum != cpu_sum

    def any_overflow(self, grads):
        return any(self.has_inf_or_nan(g) for g in grads)


class FP16Optimizer:
    def __init__(self, module, lr):
        self.params = list(module.parameters())
        self.master = [p.detach().float().clone().requires_grad_() for p in self.params]
        self.inner = torch.optim.AdamW(self.master, lr=lr)
        self.scaler = DynamicLossScaler()
        self.checker = OverflowChecker()

    def backward(self, loss):
        (loss.float() * self.scaler.scale).backward()

    def step(self):
        grads = [p.grad for p in self.params]
        overflow = self.checker.any_overflow(grads)
        if not overflow:
            for m, g in zip(self.master, grads):
                m.grad = g.float() / self.scaler.scale
            self.inner.step()
            with torch.no_grad():
                for p, m in zip(self.params, self.master):
                    p.copy_(m)
        self.scaler.update(overflow)
        for p in self.params:
            p.grad = None
        return overflow


def main():
    model = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(6)]).cuda().half()
    opt = FP16Optimizer(model, 1e-4)
    skipped = 0
    for _ in range(100):
        x = torch.randn(128, 1024, device="cuda", dtype=torch.float16)
        opt.backward((model(x) - x).pow(2).mean())
        skipped += opt.step()
    print("skipped", skipped)


if __name__ == "__main__":
    main()
