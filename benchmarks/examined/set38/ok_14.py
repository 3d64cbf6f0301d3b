"""Feed a simulator's single NumPy observation array to the device every step."""
import numpy as np
import torch
import torch.nn as nn


class Pendulums:
    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        self.theta = rng.uniform(-np.pi, np.pi, n).astype(np.float32)
        self.omega = np.zeros(n, dtype=np.float32)
        self.obs = np.empty((n, 3), dtype=np.float32)

    def observe(self):
        np.cos(self.theta, out=self.obs[:, 0])
        np.sin(self.theta, out=self.obs[:, 1])
        self.obs[:, 2] = self.omega
        return self.obs

    def step(self, torque, dt=0.05):
        self.omega += dt * (9.81 * np.sin(self.theta) + torque)
        np.clip(self.omega, -8, 8, out=self.omega)
        self.theta += dt * self.omega
        return -(self.theta ** 2 + 0.1 * self.omega ** 2)


class DeviceFeed:
    def __init__(self, device):
        self.device = device
        self.stream = torch.cuda.Stream(device=device)

    def send(self, array):
        consumer = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self.stream):
            x = torch.from_numpy(array).to(self.device, non_blocking=True)
        consumer.wait_stream(self.stream)
        x.record_stream(consumer)
        return x


class Actor(nn.Module):
    def __init__(self, hidden=512):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh())
        self.mu = nn.Linear(hidden, 1)

    def forward(self, obs):
        return 2.0 * torch.tanh(self.mu(self.body(obs))).squeeze(-1)


class Rollout:
    def __init__(self, env, actor, feed, horizon):
        self.env, self.actor, self.feed = env, actor, feed
        self.horizon = horizon
        self.obs, self.rewards = [], []

    @torch.no_grad()
    def collect(self):
        action = None
        for t in range(self.horizon):
            obs = self.feed.send(self.env.observe())
            self.obs.append(obs)
            if t % 4 == 0:
                action = self.actor(obs).cpu().numpy()
            self.rewards.append(self.env.step(action))
        return torch.stack(self.obs), np.stack(self.rewards)


def main():
    torch.manual_seed(0)
    device = torch.device("cuda")
    env = Pendulums(65536)
    roll = Rollout(env, Actor().to(device), DeviceFeed(device), 64)
    obs, rewards = roll.collect()
    print(obs.shape, obs[-1].mean(dim=0).tolist(), rewards.mean())


if __name__ == "__main__":
    main()
