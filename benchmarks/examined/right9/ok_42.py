import torch
import warp as wp

wp.init()


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), f: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v[i] = v[i] + f[i] * dt
    p = x[i] + v[i] * dt
    if p[1] < 0.0:
        p = wp.vec3(p[0], 0.0, p[2])
        v[i] = wp.vec3(v[i][0], -0.5 * v[i][1], v[i][2])
    x[i] = p


class ParticleSim:
    """Forces from a torch network, integration in Warp."""

    def __init__(self, n, policy):
        self.policy = policy
        self.stream = torch.cuda.Stream()
        self.wp_stream = wp.stream_from_torch(self.stream)
        with torch.cuda.stream(self.stream):
            self.x = torch.rand(n, 3, device="cuda")
            self.v = torch.zeros(n, 3, device="cuda")
        self.wx = wp.from_torch(self.x, dtype=wp.vec3)
        self.wv = wp.from_torch(self.v, dtype=wp.vec3)

    @torch.no_grad()
    def step(self, dt):
        with torch.cuda.stream(self.stream), wp.ScopedStream(self.wp_stream, sync_enter=False):
            force = self.policy(torch.cat([self.x, self.v], -1))
            force[:, 1] -= 9.81
            wf = wp.from_torch(force.contiguous(), dtype=wp.vec3)
            wp.launch(integrate, dim=self.x.shape[0], inputs=[self.wx, self.wv, wf, dt])

    def observe(self):
        with torch.cuda.stream(self.stream):
            return self.x.mean(0).cpu()


def main():
    policy = torch.nn.Sequential(torch.nn.Linear(6, 64), torch.nn.Tanh(), torch.nn.Linear(64, 3)).cuda()
    torch.cuda.synchronize()
    sim = ParticleSim(100_000, policy)
    for frame in range(60):
        for _ in range(4):
            sim.step(1.0 / 240)
        print(frame, sim.observe().tolist())


if __name__ == "__main__":
    main()
