import numpy as np
import torch
import torch.nn as nn


class WorldModel(nn.Module):
    def __init__(self, obs_dim, act_dim, latent):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(obs_dim, 256), nn.ELU(), nn.Linear(256, latent))
        self.dynamics = nn.Sequential(nn.Linear(latent + act_dim, 256), nn.ELU(), nn.Linear(256, latent))
        self.reward = nn.Linear(latent + act_dim, 1)
        self.q = nn.Linear(latent, 1)


class Planner:
    """MPPI over latent rollouts; one graph for the whole planning step."""

    def __init__(self, model, obs_dim, act_dim, horizon=3, samples=512, elites=64, iterations=6):
        self.model = model
        self.horizon, self.samples, self.elites, self.iterations = horizon, samples, elites, iterations
        self.obs = torch.zeros(1, obs_dim, device="cuda")
        self.prev_mean = torch.zeros(horizon, act_dim, device="cuda")
        self.noise = torch.zeros(iterations, horizon, samples, act_dim, device="cuda")
        self.action = torch.zeros(act_dim, device="cuda")
        self.obs_host = torch.empty(1, obs_dim, pin_memory=True)
        self.action_host = torch.empty(act_dim, pin_memory=True)
        self.ready = torch.cuda.Event()
        self.graph = None

    def _value(self, z, actions):
        total, discount = torch.zeros(self.samples, 1, device="cuda"), 1.0
        for t in range(self.horizon):
            za = torch.cat([z, actions[t]], dim=-1)
            total = total + discount * self.model.reward(za)
            z = self.model.dynamics(za)
            discount *= 0.99
        return (total + discount * self.model.q(z)).squeeze(-1)

    def _plan(self):
        z = self.model.encoder(self.obs).repeat(self.samples, 1)
        mean = torch.cat([self.prev_mean[1:], torch.zeros_like(self.prev_mean[:1])])
        std = torch.ones_like(mean)
        for i in range(self.iterations):
            actions = (mean[:, None] + std[:, None] * self.noise[i]).clamp(-1, 1)
            value = self._value(z, actions)
            top, idx = value.topk(self.elites)
            score = torch.softmax(top, dim=0)[None, :, None]
            chosen = actions[:, idx]
            mean = (score * chosen).sum(1)
            std = ((score * (chosen - mean[:, None]) ** 2).sum(1)).sqrt().clamp(0.05, 2)
        self.prev_mean.copy_(mean)
        self.action.copy_(mean[0])

    @torch.inference_mode()
    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._plan()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._plan()
        self.graph = graph

    @torch.inference_mode()
    def act(self, obs, t0):
        self.obs_host.copy_(torch.from_numpy(obs)[None])
        self.obs.copy_(self.obs_host, non_blocking=True)
        self.noise.normal_()
        if t0:
            self.prev_mean.zero_()
        self.graph.replay()
        self.action_host.copy_(self.action, non_blocking=True)
        self.ready.record()
        self.ready.synchronize()
        return self.action_host.numpy().copy()


def main():
    planner = Planner(WorldModel(24, 6, 128).cuda().eval(), 24, 6)
    planner.capture()
    rng = np.random.default_rng(0)
    for _ in range(3):
        obs = rng.standard_normal(24).astype(np.float32)
        for t in range(50):
            action = planner.act(obs, t == 0)
            obs = 0.95 * obs + 0.05 * np.tile(action, 4)
    print(obs[:4])


if __name__ == "__main__":
    main()
