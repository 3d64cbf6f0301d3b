"""Particle simulation in Warp with PyTorch control on a shared stream."""
import torch
import warp as wp
from torch import nn


@wp.kernel
def integrate(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3),
              force: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v = vel[i] * 0.99 + force[i] * dt
    vel[i] = v
    pos[i] = pos[i] + v * dt


class ParticleEnv:
    def __init__(self, n, stream):
        self.n = n
        self.pos = torch.randn(n, 3, device="cuda")
        self.vel = torch.zeros(n, 3, device="cuda")
        self.wp_pos = wp.from_torch(self.pos, dtype=wp.vec3)
        self.wp_vel = wp.from_torch(self.vel, dtype=wp.vec3)
        self.wp_stream = wp.stream_from_torch(stream)

    def observe(self):
        return torch.cat([self.pos, self.vel], 1)

    def step(self, force):
        force = force.contiguous()
        with wp.ScopedStream(self.wp_stream):
            wp.launch(integrate, dim=self.n,
                      inputs=[self.wp_pos, self.wp_vel, wp.from_torch(force, dtype=wp.vec3), 0.01])
        return -self.pos.norm(dim=1).mean()


@torch.inference_mode()
def rollout(steps=300):
    wp.init()
    work = torch.cuda.Stream()
    with torch.cuda.stream(work):
        policy = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 3)).cuda()
        env = ParticleEnv(1 << 18, work)
        rewards = []
        for _ in range(steps):
            rewards.append(env.step(policy(env.observe())))
        return torch.stack(rewards).tolist()


if __name__ == "__main__":
    print(rollout()[-3:])
