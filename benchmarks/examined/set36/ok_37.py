"""Off-policy learner: a collector thread fills device storage that the trainer samples from."""
import queue
import threading

import torch
import torch.nn as nn
import torch.nn.functional as F


class DeviceReplay:
    """Circular storage. `extend` and `sample` may be called from different threads."""

    def __init__(self, capacity, obs_dim, act_dim, device="cuda"):
        self.capacity = capacity
        self.obs = torch.zeros(capacity, obs_dim, device=device)
        self.act = torch.zeros(capacity, act_dim, device=device)
        self.rew = torch.zeros(capacity, device=device)
        self.device = device
        self.cursor = 0
        self.size = 0
        self.lock = threading.Lock()

    def extend(self, obs, act, rew):
        n = obs.shape[0]
        with self.lock:
            index = (torch.arange(n, device=self.device) + self.cursor) % self.capacity
            self.obs.index_copy_(0, index, obs)
            self.act.index_copy_(0, index, act)
            self.rew.index_copy_(0, index, rew)
            self.cursor = (self.cursor + n) % self.capacity
            self.size = min(self.capacity, self.size + n)

    def sample(self, n):
        with self.lock:
            index = torch.randint(0, max(self.size, 1), (n,), device=self.device)
            return self.obs[index], self.act[index], self.rew[index]


class Policy(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(obs_dim, 512), nn.ReLU(), nn.Linear(512, act_dim), nn.Tanh())

    def forward(self, obs):
        return self.net(obs)


class Collector(threading.Thread):
    def __init__(self, replay, obs_dim, act_dim, envs, iterations, ticks):
        super().__init__(daemon=True)
        self.replay = replay
        self.policy = Policy(obs_dim, act_dim).cuda()
        self.iterations = iterations
        self.ticks = ticks
        self.obs = torch.zeros(envs, obs_dim, device="cuda")
        self.mix = torch.randn(act_dim, obs_dim, device="cuda") / obs_dim ** 0.5

    @torch.no_grad()
    def run(self):
        for step in range(self.iterations):
            act = self.policy(self.obs)
            act = (act + 0.1 * torch.randn_like(act)).clamp_(-1, 1)
            rew = -self.obs.square().mean(dim=1)
            self.replay.extend(self.obs, act, rew)
            self.obs = 0.95 * self.obs + act @ self.mix
            self.ticks.put(step)
        self.ticks.put(None)


class Learner:
    def __init__(self, replay, obs_dim, act_dim):
        self.replay = replay
        self.critic = nn.Sequential(nn.Linear(obs_dim + act_dim, 512), nn.ReLU(), nn.Linear(512, 1)).cuda()
        self.optimizer = torch.optim.Adam(self.critic.parameters(), lr=3e-4)
        self.loss = torch.zeros((), device="cuda")

    def update(self, batch=1024):
        obs, act, rew = self.replay.sample(batch)
        value = self.critic(torch.cat([obs, act], dim=1)).squeeze(1)
        loss = F.mse_loss(value, rew)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.loss = loss.detach()


def main():
    obs_dim, act_dim = 64, 16
    ticks: "queue.Queue" = queue.Queue(maxsize=4)
    replay = DeviceReplay(1 << 18, obs_dim, act_dim)
    learner = Learner(replay, obs_dim, act_dim)
    collector = Collector(replay, obs_dim, act_dim, envs=2048, iterations=400, ticks=ticks)
    collector.start()
    while ticks.get() is not None:
        learner.update()
    collector.join()
    print(float(learner.loss), float(collector.obs.norm()))


if __name__ == "__main__":
    main()
