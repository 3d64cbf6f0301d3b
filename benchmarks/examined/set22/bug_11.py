"""Graph-captured recurrent policy head stepped once per environment tick."""
import torch
from torch import nn


class RecurrentPolicy(nn.Module):
    def __init__(self, obs_dim, hidden, actions, num_envs, device):
        super().__init__()
        self.encode = nn.Linear(obs_dim, hidden)
        self.mix = nn.Linear(hidden, hidden)
        self.head = nn.Linear(hidden, actions)
        self.hidden = hidden
        self.state = torch.zeros(num_envs, hidden, device=device)

    def forward(self, obs):
        pre = self.encode(obs) + self.mix(self.state)
        self.state = torch.tanh(pre)
        return self.head(self.state)

    def reset(self, done):
        self.state[done] = 0.0


class GraphedPolicy:
    def __init__(self, policy, example_obs, warmup=3):
        self.policy = policy
        self.static_obs = example_obs.clone()
        initial = policy.state.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            for _ in range(warmup):
                policy(self.static_obs)
        torch.cuda.current_stream().wait_stream(side)
        policy.state = initial
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph), torch.no_grad():
            self.static_logits = policy(self.static_obs)

    def __call__(self, obs):
        self.static_obs.copy_(obs)
        self.graph.replay()
        return self.static_logits.clone()


class Collector:
    def __init__(self, env, policy, device):
        self.env = env
        self.policy = policy
        self.device = device
        self.obs = env.reset().to(device)
        self.graphed = GraphedPolicy(policy, self.obs)

    @torch.no_grad()
    def rollout(self, horizon):
        logits, actions, rewards = [], [], []
        for _ in range(horizon):
            out = self.graphed(self.obs)
            action = torch.distributions.Categorical(logits=out).sample()
            obs, reward, done = self.env.step(action.cpu())
            self.obs = obs.to(self.device)
            done = done.to(self.device)
            self.policy.reset(done)
            logits.append(out)
            actions.append(action)
            rewards.append(reward)
        return torch.stack(logits), torch.stack(actions), torch.stack(rewards)


def main(env, obs_dim, num_envs, iters):
    device = torch.device("cuda", 0)
    policy = RecurrentPolicy(obs_dim, 512, 18, num_envs, device).to(device).eval()
    collector = Collector(env, policy, device)
    returns = []
    for _ in range(iters):
        _, _, rewards = collector.rollout(128)
        returns.append(rewards.sum(0).mean().item())
    return returns
