"""Warp particle steps launched on the stream torch is using."""
import torch
import warp as wp

wp.init()


@wp.kernel
def integrate(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3), force: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v = vel[i] + force[i] * dt
    p = pos[i] + v * dt
    if p[1] < 0.0:
        p = wp.vec3(p[0], -p[1], p[2])
        v = wp.vec3(v[0], -0.8 * v[1], v[2])
    vel[i] = v
    pos[i] = p


class WarpIntegrator:
    def __init__(self, count, torch_stream):
        self.stream = torch_stream
        self.wp_stream = wp.stream_from_torch(torch_stream)
        with torch.cuda.stream(torch_stream):
            self.pos = torch.rand(count, 3, device="cuda")
            self.vel = torch.zeros(count, 3, device="cuda")
        self.views = [wp.from_torch(t, dtype=wp.vec3) for t in (self.pos, self.vel)]

    def step(self, force, dt):
        wp.launch(
            integrate,
            dim=self.pos.shape[0],
            inputs=[*self.views, wp.from_torch(force, dtype=wp.vec3), dt],
            stream=self.wp_stream,
        )


class ForceField(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(6, 64), torch.nn.Tanh(), torch.nn.Linear(64, 3))
        self.register_buffer("gravity", torch.tensor([0.0, -9.8, 0.0]))

    def forward(self, pos, vel):
        return (self.net(torch.cat([pos, vel], dim=1)) + self.gravity).contiguous()


@torch.no_grad()
def main(steps=500):
    field = ForceField().cuda()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    world = WarpIntegrator(1 << 16, stream)
    with torch.cuda.stream(stream):
        for _ in range(steps):
            force = field(world.pos, world.vel)
            world.step(force, 1.0 / 240.0)
        height = world.pos[:, 1].mean()
        print(height.item())


if __name__ == "__main__":
    main()
