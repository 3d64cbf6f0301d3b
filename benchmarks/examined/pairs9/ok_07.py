"""Control policy served from a CUDA graph; observations are staged in pinned memory."""
import numpy as np
import torch
from torch import nn


class PolicyGraph:
    def __init__(self, policy, obs_dim, batch):
        self.staging = torch.zeros(batch, obs_dim, pin_memory=True)
        self.obs = torch.zeros(batch, obs_dim, device="cuda")
        self.consumed = torch.cuda.Event()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            policy(self.obs)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.obs.copy_(self.staging, non_blocking=True)
            self.action = policy(self.obs)

    def submit(self, observations):
        self.consumed.synchronize()
        view = self.staging.numpy()
        np.stack(observations, out=view)
        self.graph.replay()
        self.consumed.record()

    def accumulate(self, total):
        return total.add_(self.action)


class Environment:
    def __init__(self, seed, dim):
        self.rng = np.random.default_rng(seed)
        self.dim = dim

    def observe(self):
        return self.rng.standard_normal(self.dim, dtype=np.float32)


@torch.no_grad()
def rollout(steps=200, batch=32, dim=64):
    policy = nn.Sequential(nn.Linear(dim, 256), nn.Tanh(), nn.Linear(256, 8)).cuda()
    runner = PolicyGraph(policy, dim, batch)
    envs = [Environment(i, dim) for i in range(batch)]
    total = torch.zeros(batch, 8, device="cuda")
    for _ in range(steps):
        runner.submit([env.observe() for env in envs])
        runner.accumulate(total)
    return total.cpu().numpy()


if __name__ == "__main__":
    print(rollout().mean(0))
