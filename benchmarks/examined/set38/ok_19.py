"""Warp particle step and torch network, both driven from one torch stream."""
import torch
import torch.nn as nn
import warp as wp

wp.init()


@wp.kernel
def integrate(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3),
              acc: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v = vel[i] + acc[i] * dt
    p = pos[i] + v * dt
    if p[1] < 0.0:
        p = wp.vec3(p[0], -p[1], p[2])
        v = wp.vec3(v[0], -0.5 * v[1], v[2])
    vel[i] = v
    pos[i] = p


class Particles:
    def __init__(self, n, device):
        self.pos = torch.rand(n, 3, device=device)
        self.vel = torch.zeros(n, 3, device=device)
        self.acc = torch.zeros(n, 3, device=device)
        self.wp_pos = wp.from_torch(self.pos, dtype=wp.vec3)
        self.wp_vel = wp.from_torch(self.vel, dtype=wp.vec3)
        self.wp_acc = wp.from_torch(self.acc, dtype=wp.vec3)


class ForceNet(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, hidden), nn.GELU(), nn.Linear(hidden, hidden),
                                 nn.GELU(), nn.Linear(hidden, 3))
        self.register_buffer("gravity", torch.tensor([0.0, -9.81, 0.0]))

    def forward(self, pos, vel):
        return self.net(torch.cat([pos, vel], dim=-1)) * 0.1 + self.gravity


class Simulator:
    def __init__(self, n, device="cuda:0"):
        self.device = device
        self.state = Particles(n, device)
        self.net = ForceNet().to(device)
        self.stream = torch.cuda.Stream(device=device)
        self.wp_stream = wp.stream_from_torch(self.stream)
        self.stream.wait_stream(torch.cuda.current_stream(device))

    @torch.no_grad()
    def forces(self):
        with torch.cuda.stream(self.stream):
            self.state.acc.copy_(self.net(self.state.pos, self.state.vel))

    def substep(self, dt):
        s = self.state
        wp.launch(integrate, dim=s.pos.shape[0], inputs=[s.wp_pos, s.wp_vel, s.wp_acc, dt],
                  device=self.device, stream=self.wp_stream)

    def energy(self):
        with torch.cuda.stream(self.stream):
            kinetic = 0.5 * self.state.vel.square().sum(-1).mean()
            potential = 9.81 * self.state.pos[:, 1].mean()
            return (kinetic + potential).item()

    def run(self, steps, substeps=4, dt=1e-3):
        trace = []
        for i in range(steps):
            self.forces()
            for _ in range(substeps):
                self.substep(dt)
            if i % 50 == 0:
                trace.append(self.energy())
        return trace


def main():
    torch.manual_seed(0)
    print(Simulator(1 << 18).run(200))


if __name__ == "__main__":
    main()
