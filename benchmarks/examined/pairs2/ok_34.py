"""Rollout collection with pinned exchange areas between simulator and policy."""
import numpy as np
import torch
import torch.nn as nn


class VectorSim:
    def __init__(self, n, obs_dim):
        self.rng = np.random.default_rng(0)
        self.state = self.rng.standard_normal((n, obs_dim)).astype(np.float32)

    def step(self, actions):
        self.state += 0.1 * (actions[:, None] - 1)
        return self.state, -np.abs(self.state).mean(1)


class RolloutCollector:
    def __init__(self, sim, policy, horizon):
        n, dim = sim.state.shape
        self.sim, self.policy, self.horizon = sim, policy, horizon
        self.obs_pin = torch.empty(n, dim, pin_memory=True)
        self.reward_pin = torch.empty(n, pin_memory=True)
        self.action_pin = torch.empty(n, dtype=torch.int64, pin_memory=True)
        self.obs = torch.empty(horizon, n, dim, device="cuda")
        self.rewards = torch.empty(horizon, n, device="cuda")
        self.chosen = torch.cuda.Event()

    @torch.no_grad()
    def collect(self):
        state = self.sim.state
        for t in range(self.horizon):
            self.obs_pin.numpy()[...] = state
            self.obs[t].copy_(self.obs_pin, non_blocking=True)
            logits = self.policy(self.obs[t])
            action = torch.distributions.Categorical(logits=logits).sample()
            self.action_pin.copy_(action, non_blocking=True)
            self.chosen.record()
            self.chosen.synchronize()
            state, reward = self.sim.step(self.action_pin.numpy())
            self.reward_pin.numpy()[...] = reward
            self.rewards[t].copy_(self.reward_pin, non_blocking=True)
        return self.obs, self.rewards


def main():
    policy = nn.Sequential(nn.Linear(32, 256), nn.Tanh(), nn.Linear(256, 3)).cuda()
    opt = torch.optim.Adam(policy.parameters(), lr=3e-4)
    collector = RolloutCollector(VectorSim(1024, 32), policy, horizon=64)
    for _ in range(50):
        obs, rewards = collector.collect()
        advantage = rewards - rewards.mean()
        logp = policy(obs).log_softmax(-1).amax(-1)
        loss = -(logp * advantage).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
