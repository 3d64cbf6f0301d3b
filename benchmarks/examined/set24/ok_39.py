"""Particle step that mixes torch and Warp on one borrowed stream."""
import torch
import warp as wp


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3),
              f: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    vi = v[i] + f[i] * dt
    v[i] = vi
    x[i] = x[i] + vi * dt


@wp.kernel
def bounce(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    p = x[i]
    if p[1] < 0.0:
        x[i] = wp.vec3(p[0], -p[1], p[2])
        v[i] = wp.vec3(v[i][0], -0.5 * v[i][1], v[i][2])


class ParticleStep:
    def __init__(self, n, device="cuda:0"):
        self.n = n
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.wp_stream = wp.stream_from_torch(self.stream)
        self.x = torch.rand(n, 3, device=self.device)
        self.v = torch.zeros(n, 3, device=self.device)
        self.f = torch.zeros(n, 3, device=self.device)
        self.wx = wp.from_torch(self.x, dtype=wp.vec3)
        self.wv = wp.from_torch(self.v, dtype=wp.vec3)
        self.wf = wp.from_torch(self.f, dtype=wp.vec3)
        self.net = torch.nn.Linear(6, 3).to(self.device)
        wp.load_module(device=device)

    @torch.no_grad()
    def step(self, dt):
        caller = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(caller)
        with torch.cuda.stream(self.stream):
            force = self.net(torch.cat([self.x, self.v], dim=1))
            force[:, 1] -= 9.81
            self.f.copy_(force)
            with wp.ScopedStream(self.wp_stream, sync_enter=False):
                wp.launch(integrate, dim=self.n, inputs=[self.wx, self.wv, self.wf, dt])
                wp.launch(bounce, dim=self.n, inputs=[self.wx, self.wv])
        caller.wait_stream(self.stream)

    def energy(self):
        return (0.5 * self.v.square().sum() + 9.81 * self.x[:, 1].sum()).item()


def main():
    wp.init()
    sim = ParticleStep(1 << 18)
    for i in range(200):
        sim.step(1.0 / 240.0)
        if i % 50 == 0:
            print(i, sim.energy())


if __name__ == "__main__":
    main()
