"""fp16 optimizer wrapper that skips steps with overflowing gradients."""
import math

import torch
import torch.nn as nn


class FP16Optimizer:
    def __init__(self, optimizer, init_scale=2 ** 15, growth_interval=1000):
        self.optimizer = optimizer
        self.cur_scale = float(init_scale)
        self.interval = growth_interval
        self.since_overflow = 0
        self.async_buff = torch.zeros(1, pin_memory=True)
        self.model_params = [p for g in optimizer.param_groups for p in g["params"]]
        self.master = [p.detach().clone().float().requires_grad_() for p in self.model_params]
        for g, m in zip(optimizer.param_groups, [self.master]):
            g["params"] = m

    def _sum_is_bad(self, x):
        cpu_sum = float(self.async_buff.copy_(x.float().sum(), non_blocking=True))
        return math.isinf(cpu_sum) or math.isnan(cpu_sum)

    def has_overflow(self):
        return any(self._sum_is_bad(p.grad) for p in self.model_params)

    def backward(self, loss):
        (loss.float() * self.cur_scale).backward()

    @torch.no_grad()
    def step(self):
        if self.has_overflow():
            self.cur_scale = max(self.cur_scale / 2, 1.0)
            self.since_overflow = 0
            return
        for m, p in zip(self.master, self.model_params):
            m.grad = p.grad.float().div_(self.cur_scale)
        self.optimizer.step()
        for m, p in zip(self.master, self.model_params):
            p.copy_(m)
        self.since_overflow += 1
        if self.since_overflow % self.interval == 0:
            self.cur_scale *= 2

    def zero_grad(self):
        for p in self.model_params:
            p.grad = None


def main():
    model = nn.Sequential(nn.Linear(2048, 8192), nn.ReLU(), nn.Linear(8192, 2048)).cuda().half()
    optimizer = FP16Optimizer(torch.optim.Adam(model.parameters(), lr=1e-4))
    for _ in range(5000):
        x = torch.randn(64, 2048, device="cuda", dtype=torch.half)
        loss = (model(x) - x).float().pow(2).mean()
        optimizer.zero_grad()
        optimizer.backward(loss)
        optimizer.step()
    print(optimizer.cur_scale)


if __name__ == "__main__":
    main()
