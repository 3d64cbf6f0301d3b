"""Offline RL: replay samples are gathered by a thread into recycled pinned arrays."""
import queue
import threading

import numpy as np
import torch
import torch.nn as nn


class ReplaySampler(threading.Thread):
    def __init__(self, transitions, batch, buffers=2):
        super().__init__(daemon=True)
        self.transitions = transitions
        self.batch = batch
        self.available = queue.Queue()
        self.filled = queue.Queue()
        for _ in range(buffers):
            self.available.put(torch.empty(batch, transitions.shape[1], pin_memory=True))
        self.rng = np.random.default_rng(0)

    def run(self):
        while True:
            slot = self.available.get()
            rows = self.rng.integers(0, len(self.transitions), self.batch)
            np.take(self.transitions, rows, axis=0, out=slot.numpy())
            self.filled.put(slot)

    def sample(self):
        slot = self.filled.get()
        batch = slot.to("cuda", non_blocking=True)
        self.available.put(slot)
        return batch


class Critic(nn.Module):
    def __init__(self, obs, act):
        super().__init__()
        self.q = nn.Sequential(nn.Linear(obs + act, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                               nn.Linear(1024, 1))

    def forward(self, obs_act):
        return self.q(obs_act).squeeze(-1)


def main(obs=376, act=17, steps=20_000):
    transitions = np.load("humanoid_medium.npy").astype(np.float32)
    sampler = ReplaySampler(transitions, batch=4096)
    sampler.start()
    critic = Critic(obs, act).cuda()
    optimizer = torch.optim.Adam(critic.parameters(), lr=3e-4)
    for _ in range(steps):
        batch = sampler.sample()
        target = batch[:, -1]
        loss = (critic(batch[:, :obs + act]) - target).pow(2).mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    torch.save(critic.state_dict(), "critic.pt")


if __name__ == "__main__":
    main()
