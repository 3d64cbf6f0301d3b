"""Norm clipping issued from a helper stream."""
import functools

import torch
import torch.nn as nn


def runs_on_helper(method):
    @functools.wraps(method)
    def inner(self, *args):
        caller = torch.cuda.current_stream()
        with torch.cuda.stream(self.helper):
            self.helper.wait_stream(torch.cuda.current_stream())
            result = method(self, *args)
        caller.wait_stream(self.helper)
        return result
    return inner


class GradientGuard:
    def __init__(self, module, limit):
        self.module = module
        self.limit = limit
        self.helper = torch.cuda.Stream()
        self.total = torch.zeros(1, device="cuda")
        torch.cuda.synchronize()

    @runs_on_helper
    @torch.no_grad()
    def apply(self):
        self.total.zero_()
        for p in self.module.parameters():
            if p.grad is not None:
                self.total.add_(p.grad.float().pow(2).sum())
        factor = (self.limit / self.total.sqrt().clamp(min=1e-6)).clamp(max=1.0)
        for p in self.module.parameters():
            if p.grad is not None:
                p.grad.mul_(factor)


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(128, 1024), nn.Tanh(), nn.Linear(1024, 18))

    def forward(self, obs):
        return torch.distributions.Categorical(logits=self.net(obs))


def train(iterations=1000):
    policy = Policy().cuda()
    guard = GradientGuard(policy, 0.5)
    opt = torch.optim.RMSprop(policy.parameters(), lr=7e-4)
    for _ in range(iterations):
        obs = torch.randn(2048, 128, device="cuda")
        dist = policy(obs)
        action = dist.sample()
        loss = -(dist.log_prob(action) * torch.randn_like(obs[:, 0])).mean()
        opt.zero_grad(set_to_none=False)
        loss.backward()
        guard.apply()
        opt.step()


train()
