import torch
import warp as wp

wp.init()


@wp.kernel
def integrate(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3),
              force: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    vel[i] = vel[i] + force[i] * dt
    pos[i] = pos[i] + vel[i] * dt


@wp.kernel
def kinetic(vel: wp.array(dtype=wp.vec3), energy: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(energy, 0, 0.5 * wp.dot(vel[i], vel[i]))


class ParticleEnv:
    """Warp simulation stepped on the stream of the torch policy."""

    def __init__(self, count: int, device: str = "cuda:0"):
        self.count = count
        self.device = device
        self.pos = torch.randn(count, 3, device=device)
        self.vel = torch.zeros(count, 3, device=device)
        self.energy = torch.zeros(1, device=device)
        self.wp_pos = wp.from_torch(self.pos, dtype=wp.vec3)
        self.wp_vel = wp.from_torch(self.vel, dtype=wp.vec3)
        self.wp_energy = wp.from_torch(self.energy)

    def step(self, force: torch.Tensor, dt: float = 1.0 / 60.0):
        stream = wp.stream_from_torch(torch.cuda.current_stream(self.device))
        wp_force = wp.from_torch(force.contiguous(), dtype=wp.vec3)
        self.energy.zero_()
        with wp.ScopedStream(stream):
            wp.launch(integrate, dim=self.count,
                      inputs=[self.wp_pos, self.wp_vel, wp_force, dt], device=self.device)
            wp.launch(kinetic, dim=self.count,
                      inputs=[self.wp_vel, self.wp_energy], device=self.device)
        return torch.cat([self.pos, self.vel], dim=1), self.energy.clone()


class Policy(torch.nn.Module):
    def __init__(self, width: int = 128):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(6, width), torch.nn.Tanh(), torch.nn.Linear(width, 3))

    def forward(self, obs):
        return self.net(obs)


@torch.no_grad()
def rollout(steps: int = 200):
    torch.cuda.set_device(0)
    env = ParticleEnv(1 << 16)
    policy = Policy().to(env.device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    energies = []
    with torch.cuda.stream(side):
        obs = torch.cat([env.pos, env.vel], dim=1)
        for _ in range(steps):
            obs, energy = env.step(policy(obs))
            energies.append(energy)
        trace = torch.cat(energies).cpu()
    torch.cuda.current_stream().wait_stream(side)
    return trace


if __name__ == "__main__":
    print(rollout()[-1])
