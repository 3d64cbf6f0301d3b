"""Robot policy runner with a captured forward pass."""
from collections import deque

import torch
from torch import nn


class CapturedPolicy:
    def __init__(self, net, obs_dim, batch):
        self.net = net
        self.obs = torch.zeros(batch, obs_dim, device="cuda")
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm), torch.no_grad():
            for _ in range(3):
                self.net(self.obs)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(self.graph):
            self.action = self.net(self.obs)

    def __call__(self, obs):
        self.obs.copy_(obs)
        self.graph.replay()
        return self.action.clone()


class Plant:
    def __init__(self, n, obs_dim, act_dim):
        self.obs = torch.randn(n, obs_dim, device="cuda")
        self.mix = torch.randn(act_dim, obs_dim, device="cuda") * 0.01

    def apply(self, action):
        self.obs = 0.99 * self.obs + action @ self.mix
        return self.obs


def main():
    net = nn.Sequential(nn.Linear(48, 256), nn.ELU(), nn.Linear(256, 12)).cuda()
    policy = CapturedPolicy(net, 48, 4096)
    plant = Plant(4096, 48, 12)
    recent = deque(maxlen=8)
    obs = plant.obs
    for tick in range(2000):
        action = policy(obs)
        recent.append(action)
        obs = plant.apply(action)
        if tick % 100 == 99:
            jitter = (torch.stack(list(recent)[1:]) - torch.stack(list(recent)[:-1])).abs().mean()
            print(tick, jitter.item())


if __name__ == "__main__":
    main()
