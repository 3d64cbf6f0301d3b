"""Particle simulation in Warp with a torch policy acting on a simulation stream."""
from typing import List

import torch
import torch.nn as nn
import warp as wp

wp.init()


@wp.kernel
def apply_and_step(
    q: wp.array(dtype=wp.vec3), qd: wp.array(dtype=wp.vec3), act: wp.array(dtype=wp.vec3), dt: float
):
    tid = wp.tid()
    qd[tid] = qd[tid] * 0.999 + act[tid] * dt
    q[tid] = q[tid] + qd[tid] * dt


@wp.kernel
def observe(q: wp.array(dtype=wp.vec3), qd: wp.array(dtype=wp.vec3), out: wp.array2d(dtype=float)):
    tid = wp.tid()
    for k in range(3):
        out[tid, k] = q[tid][k]
        out[tid, 3 + k] = qd[tid][k]


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 128), nn.Tanh(), nn.Linear(128, 3))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.net(obs)


class Environment:
    """Warp launches and torch kernels share one stream object."""

    def __init__(self, count: int, device: str = "cuda:0"):
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        self.wp_stream = wp.stream_from_torch(self.stream)
        self.q = wp.zeros(count, dtype=wp.vec3, device=device)
        self.qd = wp.zeros(count, dtype=wp.vec3, device=device)
        self.obs = wp.zeros((count, 6), dtype=float, device=device)
        self.count = count
        wp.synchronize_device(device)

    def rollout(self, policy: Policy, steps: int, dt: float = 1e-2) -> torch.Tensor:
        caller = torch.cuda.current_stream()
        self.stream.wait_stream(caller)
        rewards: List[torch.Tensor] = []
        with torch.cuda.stream(self.stream), wp.ScopedStream(self.wp_stream), torch.inference_mode():
            obs = wp.to_torch(self.obs)
            for _ in range(steps):
                wp.launch(observe, dim=self.count, inputs=[self.q, self.qd], outputs=[self.obs],
                          device=self.device)
                action = policy(obs).contiguous()
                wp.launch(
                    apply_and_step, dim=self.count,
                    inputs=[self.q, self.qd, wp.from_torch(action, dtype=wp.vec3), dt],
                    device=self.device,
                )
                rewards.append(-obs[:, :3].norm(dim=1).mean())
            result = torch.stack(rewards)
        caller.wait_stream(self.stream)
        result.record_stream(caller)
        return result


def main() -> None:
    env = Environment(100_000)
    policy = Policy().cuda()
    for _ in range(10):
        rewards = env.rollout(policy, 64)
        print(rewards[-1].item())


if __name__ == "__main__":
    main()
