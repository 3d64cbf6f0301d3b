"""Replay buffer sampling through pinned staging areas."""
import numpy as np
import torch
import torch.nn as nn


class ReplayBuffer:
    def __init__(self, capacity, obs_dim):
        self.obs = np.random.randn(capacity, obs_dim).astype(np.float32)
        self.reward = np.random.randn(capacity).astype(np.float32)
        self.capacity = capacity

    def indices(self, n):
        return np.random.randint(0, self.capacity, n)


class StagedSampler:
    def __init__(self, buffer, batch, slots=2):
        self.buffer, self.batch = buffer, batch
        dim = buffer.obs.shape[1]
        self.obs = [torch.empty(batch, dim, pin_memory=True) for _ in range(slots)]
        self.reward = [torch.empty(batch, pin_memory=True) for _ in range(slots)]
        self.uploaded = [torch.cuda.Event() for _ in range(slots)]
        self.turn = 0

    def sample(self):
        slot = self.turn % len(self.obs)
        self.turn += 1
        self.uploaded[slot].synchronize()
        idx = self.buffer.indices(self.batch)
        np.take(self.buffer.obs, idx, axis=0, out=self.obs[slot].numpy())
        np.take(self.buffer.reward, idx, axis=0, out=self.reward[slot].numpy())
        obs = self.obs[slot].to("cuda", non_blocking=True)
        reward = self.reward[slot].to("cuda", non_blocking=True)
        self.uploaded[slot].record()
        return obs, reward


def main():
    sampler = StagedSampler(ReplayBuffer(100_000, 64), batch=1024)
    critic = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).cuda()
    opt = torch.optim.Adam(critic.parameters(), lr=3e-4)
    for _ in range(5000):
        obs, reward = sampler.sample()
        loss = (critic(obs).squeeze(-1) - reward).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


if __name__ == "__main__":
    main()
