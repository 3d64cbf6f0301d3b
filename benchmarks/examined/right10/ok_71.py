"""Warp particles: forces on a scoped stream between two uses of the device's own stream."""
import numpy as np
import warp as wp


@wp.kernel
def springs(x: wp.array(dtype=wp.vec3), rest: float, k: float, f: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    n = x.shape[0]
    acc = wp.vec3(0.0, 0.0, 0.0)
    if i > 0:
        d = x[i - 1] - x[i]
        acc = acc + k * (wp.length(d) - rest) * wp.normalize(d)
    if i < n - 1:
        d2 = x[i + 1] - x[i]
        acc = acc + k * (wp.length(d2) - rest) * wp.normalize(d2)
    f[i] = acc


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), f: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    if i == 0:
        return
    v[i] = 0.999 * v[i] + dt * (f[i] + wp.vec3(0.0, -9.81, 0.0))
    x[i] = x[i] + dt * v[i]


class Rope:
    def __init__(self, n: int, device="cuda:0"):
        self.n = n
        self.device = wp.get_device(device)
        pts = np.zeros((n, 3), np.float32)
        pts[:, 0] = np.linspace(0.0, 1.0, n)
        self.rest = float(pts[1, 0])
        with wp.ScopedDevice(self.device):
            self.x = wp.array(pts, dtype=wp.vec3)
            self.v = wp.zeros(n, dtype=wp.vec3)
            self.f = wp.zeros(n, dtype=wp.vec3)
        self.force_stream = wp.Stream(self.device)

    def step(self, dt: float):
        with wp.ScopedDevice(self.device):
            with wp.ScopedStream(self.force_stream, sync_enter=True, sync_exit=True):
                wp.launch(springs, dim=self.n, inputs=[self.x, self.rest, 5000.0], outputs=[self.f])
            wp.launch(integrate, dim=self.n, inputs=[self.x, self.v, self.f, dt])

    def tip(self) -> np.ndarray:
        return self.x.numpy()[-1]


def main():
    wp.init()
    rope = Rope(256)
    for frame in range(10):
        for _ in range(50):
            rope.step(1.0 / 5000.0)
        print(frame, rope.tip())


if __name__ == "__main__":
    main()
