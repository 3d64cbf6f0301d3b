import numpy as np
import warp as wp


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v[i] = v[i] + wp.vec3(0.0, -9.8, 0.0) * dt
    x[i] = x[i] + v[i] * dt


@wp.kernel
def bounds(x: wp.array(dtype=wp.vec3), low: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_min(low, 0, x[i][1])


class Scene:
    """Steps on the device stream, bounds on an analysis stream."""

    def __init__(self, n, device="cuda:0"):
        self.device = wp.get_device(device)
        self.n = n
        self.x = wp.zeros(n, dtype=wp.vec3, device=self.device)
        self.v = wp.zeros(n, dtype=wp.vec3, device=self.device)
        self.low = wp.zeros(1, dtype=float, device=self.device)
        self.analysis = wp.Stream(self.device)

    def step(self, dt):
        wp.launch(integrate, dim=self.n, inputs=[self.x, self.v, dt], device=self.device)

    def measure(self):
        with wp.ScopedStream(self.analysis):
            self.low.fill_(1.0e6)
            wp.launch(bounds, dim=self.n, inputs=[self.x, self.low], device=self.device)
            value = float(self.low.numpy()[0])
        return value


def main():
    wp.init()
    scene = Scene(100000)
    lows = []
    for k in range(30):
        scene.step(1.0 / 60.0)
        if k % 10 == 9:
            lows.append(scene.measure())
    print(np.round(lows, 3))


if __name__ == "__main__":
    main()
