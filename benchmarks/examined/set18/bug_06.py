"""A module wrapper that runs eagerly a few times, then records and replays a CUDA graph."""
import torch
from torch import nn


class CudaGraphModule(nn.Module):
    """Warms up on a side stream, captures once, then copies inputs and replays."""

    def __init__(self, module, warmup=3):
        super().__init__()
        self.module = module
        self.warmup = warmup
        self.counter = 0
        self.graph = None
        self._static_args = None
        self._static_out = None
        self._warmup_stream = torch.cuda.Stream()

    def forward(self, *args):
        if self.counter < self.warmup:
            self.counter += 1
            self._warmup_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._warmup_stream):
                out = self.module(*args)
            return out
        if self.graph is None:
            self._capture(args)
        for static, arg in zip(self._static_args, args):
            static.copy_(arg)
        self.graph.replay()
        return tuple(o.clone() for o in self._static_out)

    def _capture(self, args):
        torch.cuda.synchronize()
        self._static_args = tuple(a.clone() for a in args)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._static_out = tuple(self.module(*self._static_args))
        self.graph = graph


class ActorCritic(nn.Module):
    def __init__(self, obs_dim, act_dim, width=512):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Linear(obs_dim, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
        )
        self.mu = nn.Linear(width, act_dim)
        self.value = nn.Linear(width, 1)

    def forward(self, obs):
        h = self.trunk(obs)
        return torch.tanh(self.mu(h)), self.value(h).squeeze(-1)


class RolloutBuffer:
    def __init__(self, horizon, num_envs, obs_dim, act_dim, device):
        self.obs = torch.zeros(horizon, num_envs, obs_dim, device=device)
        self.actions = torch.zeros(horizon, num_envs, act_dim, device=device)
        self.values = torch.zeros(horizon, num_envs, device=device)
        self.rewards = torch.zeros(horizon, num_envs, device=device)

    def store(self, t, obs, action, value, reward):
        self.obs[t].copy_(obs)
        self.actions[t].copy_(action)
        self.values[t].copy_(value)
        self.rewards[t].copy_(reward)


@torch.no_grad()
def collect(env, policy, buffer, horizon, noise=0.1):
    obs = env.reset()
    for t in range(horizon):
        mean, value = policy(obs)
        action = (mean + noise * torch.randn_like(mean)).clamp(-1.0, 1.0)
        next_obs, reward = env.step(action)
        buffer.store(t, obs, action, value, reward)
        obs = next_obs
    return buffer


def main(env, horizon=64, iterations=100):
    device = torch.device("cuda", 0)
    net = ActorCritic(env.obs_dim, env.act_dim).to(device)
    policy = CudaGraphModule(net)
    buffer = RolloutBuffer(horizon, env.num_envs, env.obs_dim, env.act_dim, device)
    for it in range(iterations):
        collect(env, policy, buffer, horizon)
        if it % 10 == 0:
            print(it, buffer.rewards.sum(0).mean().item())
