"""On-policy training with an environment that lives on the GPU."""
import torch
import torch.nn as nn


class PointMass:
    """Batched environment; states never leave the device."""

    def __init__(self, count, device):
        self.count, self.device = count, device
        self.state = torch.zeros(count, 4, device=device)

    def reset(self):
        self.state = torch.rand(self.count, 4, device=self.device) * 2 - 1
        return self.state

    def step(self, action):
        pos, vel = self.state.split(2, dim=-1)
        vel = vel * 0.98 + 0.05 * action.clamp(-1, 1)
        pos = pos + 0.05 * vel
        self.state = torch.cat([pos, vel], dim=-1)
        return self.state, -pos.square().sum(-1)


class Policy(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 2)
        )
        self.log_std = nn.Parameter(torch.zeros(2) - 0.5)

    def forward(self, obs):
        return torch.distributions.Normal(self.net(obs), self.log_std.exp(), validate_args=False)


class Collector:
    def __init__(self, env, policy, horizon, iterations):
        self.env, self.policy = env, policy
        self.horizon, self.iterations = horizon, iterations
        self.stream = torch.cuda.Stream(env.device)

    @torch.no_grad()
    def _rollout(self):
        obs = self.env.reset()
        seen, acts, rewards = [], [], []
        for _ in range(self.horizon):
            action = self.policy(obs).sample()
            seen.append(obs)
            acts.append(action)
            obs, reward = self.env.step(action)
            rewards.append(reward)
        returns = torch.stack(rewards).flip(0).cumsum(0).flip(0)
        return torch.stack(seen), torch.stack(acts), returns

    def collect(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.env.device))
        with torch.cuda.stream(self.stream):
            for _ in range(self.iterations):
                yield self._rollout()


@torch.no_grad()
def evaluate(policy, env, horizon):
    obs, total = env.reset(), 0.0
    for _ in range(horizon):
        obs, reward = env.step(policy.net(obs))
        total = total + reward.mean()
    return total / horizon


def train(count=4096, horizon=32, iterations=200, device="cuda"):
    device = torch.device(device)
    policy = Policy().to(device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-4)
    collector = Collector(PointMass(count, device), policy, horizon, iterations)
    for obs, actions, returns in collector.collect():
        advantage = (returns - returns.mean()) / (returns.std() + 1e-6)
        loss = -(policy(obs).log_prob(actions).sum(-1) * advantage).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    score = evaluate(policy, PointMass(1024, device), horizon)
    return policy, score.item()
