import numpy as np
import warp as wp


@wp.kernel
def integrate(pos: wp.array(dtype=wp.vec3), vel: wp.array(dtype=wp.vec3), gravity: wp.vec3, dt: float):
    tid = wp.tid()
    v = vel[tid] + gravity * dt
    p = pos[tid] + v * dt
    if p[1] < 0.0:
        p = wp.vec3(p[0], 0.0, p[2])
        v = wp.vec3(v[0], -0.5 * v[1], v[2])
    vel[tid] = v
    pos[tid] = p


@wp.kernel
def splat(pos: wp.array(dtype=wp.vec3), width: int, height: int, image: wp.array2d(dtype=float)):
    tid = wp.tid()
    p = pos[tid]
    x = int((p[0] * 0.5 + 0.5) * float(width))
    y = int((1.0 - p[1]) * float(height))
    if x >= 0 and x < width and y >= 0 and y < height:
        wp.atomic_add(image, y, x, 1.0)


class ParticleSystem:
    def __init__(self, n, device, seed=1):
        rng = np.random.default_rng(seed)
        start = rng.uniform((-1, 0.2, -1), (1, 1, 1), (n, 3)).astype(np.float32)
        self.n = n
        self.device = device
        self.pos = wp.array(start, dtype=wp.vec3, device=device)
        self.vel = wp.zeros(n, dtype=wp.vec3, device=device)
        self.gravity = wp.vec3(0.0, -9.81, 0.0)

    def step(self, dt):
        wp.launch(integrate, dim=self.n, inputs=[self.pos, self.vel, self.gravity, dt], device=self.device)


class Renderer:
    def __init__(self, device, width=640, height=480):
        self.device = device
        self.width, self.height = width, height
        self.stream = wp.Stream(device)
        self.image = wp.zeros((height, width), dtype=float, device=device)
        self.host = wp.zeros((height, width), dtype=float, device="cpu", pinned=True)
        self.state_ready = wp.Event(device)
        self.state_read = wp.Event(device)
        self.copied = wp.Event(device)

    def submit(self, system):
        wp.get_stream(self.device).record_event(self.state_ready)
        with wp.ScopedStream(self.stream):
            self.stream.wait_event(self.state_ready)
            self.image.zero_()
            wp.launch(
                splat, dim=system.n, inputs=[system.pos, self.width, self.height, self.image], device=self.device
            )
            self.stream.record_event(self.state_read)
            wp.copy(self.host, self.image)
            self.stream.record_event(self.copied)
        wp.get_stream(self.device).wait_event(self.state_read)

    def collect(self):
        wp.synchronize_event(self.copied)
        return self.host.numpy().copy()


def simulate(frames=120, substeps=8, n=1 << 18):
    wp.init()
    device = wp.get_preferred_device()
    system, renderer = ParticleSystem(n, device), Renderer(device)
    peak = []
    for frame in range(frames):
        for _ in range(substeps):
            system.step(1.0 / (60.0 * substeps))
        if frame:
            peak.append(renderer.collect().max())
        renderer.submit(system)
    peak.append(renderer.collect().max())
    return peak
