"""Spring chain in Warp: forces and drag on two streams, readback for logging."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def spring_forces(x: wp.array(dtype=wp.vec3), k: float, rest: float,
                  f: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    n = x.shape[0]
    total = wp.vec3(0.0, -9.81, 0.0)
    if i > 0:
        d = x[i - 1] - x[i]
        total = total + wp.normalize(d) * (k * (wp.length(d) - rest))
    if i < n - 1:
        d = x[i + 1] - x[i]
        total = total + wp.normalize(d) * (k * (wp.length(d) - rest))
    f[i] = total


@wp.kernel
def drag(v: wp.array(dtype=wp.vec3), c: float, out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = v[i] * (-c * wp.length(v[i]))


@wp.kernel
def advance(f: wp.array(dtype=wp.vec3), g: wp.array(dtype=wp.vec3), dt: float,
            x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    if i > 0:
        v[i] = v[i] + (f[i] + g[i]) * dt
        x[i] = x[i] + v[i] * dt


class Chain:
    def __init__(self, count, device="cuda:0"):
        self.count = count
        self.device = wp.get_device(device)
        start = np.zeros((count, 3), dtype=np.float32)
        start[:, 0] = np.arange(count) * 0.1
        self.x = wp.array(start, dtype=wp.vec3, device=self.device)
        self.v = wp.zeros(count, dtype=wp.vec3, device=self.device)
        self.f = wp.zeros(count, dtype=wp.vec3, device=self.device)
        self.g = wp.zeros(count, dtype=wp.vec3, device=self.device)
        self.main = wp.Stream(self.device)
        self.side = wp.Stream(self.device)
        self.main.wait_stream(self.device.stream)

    def step(self, dt):
        self.side.wait_stream(self.main)
        wp.launch(spring_forces, dim=self.count, inputs=[self.x, 400.0, 0.1],
                  outputs=[self.f], stream=self.main)
        wp.launch(drag, dim=self.count, inputs=[self.v, 0.3],
                  outputs=[self.g], stream=self.side)
        self.main.wait_stream(self.side)
        wp.launch(advance, dim=self.count, inputs=[self.f, self.g, dt],
                  outputs=[self.x, self.v], stream=self.main)

    def snapshot(self):
        return self.x.numpy(), self.v.numpy()


def simulate(count=10000, frames=60, substeps=20):
    chain = Chain(count)
    log = []
    for _ in range(frames):
        for _ in range(substeps):
            chain.step(1.0 / (60.0 * substeps))
        x, v = chain.snapshot()
        log.append((float(x[:, 1].min()), float(np.linalg.norm(v, axis=1).max())))
    return log


if __name__ == "__main__":
    print(simulate()[-1])
