"""Warp simulation and torch policy on one stream."""
import torch
import warp as wp
from torch import nn


@wp.kernel
def integrate(q: wp.array(dtype=float, ndim=2), u: wp.array(dtype=float, ndim=2), dt: float):
    i, j = wp.tid()
    q[i, j] = q[i, j] + dt * u[i, j]


class Simulation:
    def __init__(self, n=1024, d=4):
        wp.init()
        self.q = torch.zeros(n, d, device="cuda")
        self.u = torch.zeros(n, d, device="cuda")
        self.wq, self.wu = wp.from_torch(self.q), wp.from_torch(self.u)
        self.shape = (n, d)

    def step(self, action: torch.Tensor, dt=0.01) -> torch.Tensor:
        self.u.copy_(action)
        stream = wp.stream_from_torch(torch.cuda.current_stream())
        with wp.ScopedStream(stream, sync_enter=False):
            wp.launch(integrate, dim=self.shape, inputs=[self.wq, self.wu, dt], device="cuda:0")
        return self.q.clone()


class Rollout:
    def __init__(self):
        self.sim = Simulation()
        self.policy = nn.Linear(4, 4).cuda()
        self.stream = torch.cuda.Stream()
        torch.cuda.synchronize()

    @torch.no_grad()
    def run(self, horizon: int) -> float:
        with torch.cuda.stream(self.stream):
            obs = self.sim.q.clone()
            for _ in range(horizon):
                obs = self.sim.step(torch.tanh(self.policy(obs)))
            reward = obs.norm(dim=1).mean()
        self.stream.synchronize()
        return reward.item()


if __name__ == "__main__":
    rollout = Rollout()
    print([rollout.run(20) for _ in range(3)])
