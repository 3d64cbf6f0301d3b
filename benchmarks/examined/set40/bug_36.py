"""Policy roll-outs with a CUDA-graph wrapper that warms up on its own stream."""
import argparse

import torch
import torch.nn as nn


class GraphedModule(nn.Module):
    """Runs a module eagerly for a few calls, then replays it as a CUDA graph."""

    def __init__(self, module, warmup=3):
        super().__init__()
        self.module = module
        self.warmup = warmup
        self.counter = 0
        self.graph = None
        self.static_in = None
        self.static_out = None
        self.warmup_stream = torch.cuda.Stream()

    def _eager(self, x):
        self.warmup_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.warmup_stream):
            out = self.module(x)
        self.counter += 1
        return out

    def _capture(self, x):
        self.static_in = x.clone()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.static_out = self.module(self.static_in)

    def forward(self, x):
        if self.counter < self.warmup:
            return self._eager(x)
        if self.graph is None:
            self._capture(x)
        self.static_in.copy_(x)
        self.graph.replay()
        return self.static_out.clone()


class Policy(nn.Module):
    def __init__(self, obs, act, hidden=1024, depth=6):
        super().__init__()
        layers, d = [], obs
        for _ in range(depth):
            layers += [nn.Linear(d, hidden), nn.ELU()]
            d = hidden
        self.net = nn.Sequential(*layers, nn.Linear(d, act), nn.Tanh())

    def forward(self, x):
        return self.net(x)


class PointMass:
    def __init__(self, envs, dim, device):
        self.pos = torch.randn(envs, dim, device=device)
        self.vel = torch.zeros(envs, dim, device=device)

    def observe(self):
        return torch.cat([self.pos, self.vel], dim=1)

    def step(self, action, dt=0.05):
        self.vel.mul_(0.98).add_(action, alpha=dt)
        self.pos.add_(self.vel, alpha=dt)
        reward = -self.pos.norm(dim=1) - 0.01 * action.square().sum(1)
        return self.observe(), reward


@torch.no_grad()
def rollout(policy, env, steps):
    obs = env.observe()
    total = torch.zeros(obs.shape[0], device=obs.device)
    for _ in range(steps):
        action = policy(obs)
        obs, reward = env.step(action)
        total += reward
    return total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--envs", type=int, default=16384)
    ap.add_argument("--dim", type=int, default=8)
    ap.add_argument("--steps", type=int, default=200)
    args = ap.parse_args()
    device = torch.device("cuda:0")
    torch.manual_seed(0)
    policy = GraphedModule(Policy(2 * args.dim, args.dim).to(device))
    env = PointMass(args.envs, args.dim, device)
    returns = rollout(policy, env, args.steps)
    print("mean return", returns.mean().item())


if __name__ == "__main__":
    main()
