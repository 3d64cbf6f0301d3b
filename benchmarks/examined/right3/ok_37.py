"""Particles in Warp, control in PyTorch, both on their default streams."""
import torch
import warp as wp

wp.init()


@wp.kernel
def integrate(
    pos: wp.array(dtype=wp.vec3),
    vel: wp.array(dtype=wp.vec3),
    force: wp.array(dtype=wp.vec3),
    dt: float,
):
    i = wp.tid()
    v = vel[i] + dt * (force[i] - 0.1 * vel[i])
    vel[i] = v
    pos[i] = pos[i] + dt * v


class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(6, 64), torch.nn.Tanh(), torch.nn.Linear(64, 3))

    def forward(self, pos, vel):
        return self.net(torch.cat([pos, vel], dim=1))


class Swarm:
    def __init__(self, n: int, device: str = "cuda:0"):
        self.n = n
        self.device = device
        self.pos = torch.randn(n, 3, device=device)
        self.vel = torch.zeros(n, 3, device=device)
        self.wp_pos = wp.from_torch(self.pos, dtype=wp.vec3)
        self.wp_vel = wp.from_torch(self.vel, dtype=wp.vec3)

    def step(self, force: torch.Tensor, dt: float = 0.01) -> None:
        wp.launch(
            integrate,
            dim=self.n,
            inputs=[self.wp_pos, self.wp_vel, wp.from_torch(force.contiguous(), dtype=wp.vec3), dt],
            device=self.device,
        )


@torch.no_grad()
def rollout(steps: int) -> float:
    swarm = Swarm(4096)
    policy = Policy().to("cuda:0")
    spread = torch.zeros((), device="cuda:0")
    for _ in range(steps):
        swarm.step(policy(swarm.pos, swarm.vel))
        spread += swarm.pos.var(dim=0).sum()
    return spread.item() / steps


if __name__ == "__main__":
    print(rollout(500))
