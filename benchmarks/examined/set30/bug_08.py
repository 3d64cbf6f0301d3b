"""Rollout collector: the policy lives on the GPU, the simulator steps on the host."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Transition:
    obs: torch.Tensor
    action: np.ndarray
    reward: np.ndarray


class PointMassBatch:
    """A vectorised host environment."""

    def __init__(self, count, dim, seed=0):
        self.rng = np.random.default_rng(seed)
        self.pos = self.rng.normal(size=(count, dim)).astype(np.float32)
        self.vel = np.zeros_like(self.pos)

    def observe(self):
        return np.concatenate([self.pos, self.vel], axis=1)

    def step(self, action):
        self.vel = 0.95 * self.vel + 0.05 * np.clip(action, -1, 1)
        self.pos = self.pos + self.vel
        return self.observe(), -np.square(self.pos).sum(axis=1)


class Actor(nn.Module):
    def __init__(self, dim, hidden=1024):
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(2 * dim, hidden), nn.Tanh(),
            nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, dim))
        self.log_std = nn.Parameter(torch.full((dim,), -0.5))

    def forward(self, obs):
        mean = self.body(obs)
        return mean + self.log_std.exp() * torch.randn_like(mean)


class DeviceCast:
    """Moves what the policy needs to its device and the answer back to the simulator's."""

    def __init__(self, policy, policy_device, env_device="cpu"):
        self.policy = policy
        self.policy_device = torch.device(policy_device)
        self.env_device = torch.device(env_device)

    @torch.no_grad()
    def __call__(self, obs):
        moved = obs.pin_memory().to(self.policy_device, non_blocking=True)
        action = self.policy(moved)
        return moved, action.to(self.env_device, non_blocking=True)


class Collector:
    def __init__(self, env, policy, device, horizon):
        self.env = env
        self.act = DeviceCast(policy, device)
        self.horizon = horizon

    def rollout(self):
        obs = torch.from_numpy(self.env.observe())
        for _ in range(self.horizon):
            moved, action = self.act(obs)
            host_action = action.numpy()
            nxt, reward = self.env.step(host_action)
            yield Transition(moved, host_action, reward)
            obs = torch.from_numpy(nxt)


def returns(transitions, gamma=0.99):
    total = 0.0
    out = []
    for item in reversed(transitions):
        total = item.reward + gamma * total
        out.append(total)
    return np.stack(out[::-1])


def main(envs=4096, dim=16, horizon=128, device="cuda"):
    policy = Actor(dim).to(device)
    collector = Collector(PointMassBatch(envs, dim), policy, device, horizon)
    batch = list(collector.rollout())
    target = torch.from_numpy(returns(batch).astype(np.float32)).to(device)
    return torch.stack([t.obs for t in batch]), target


if __name__ == "__main__":
    main()
