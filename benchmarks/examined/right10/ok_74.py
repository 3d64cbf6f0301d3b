"""Warp: two independent kernels forked inside a captured step, replayed every iteration."""
import numpy as np
import warp as wp


@wp.kernel
def diffuse(u: wp.array2d(dtype=float), rate: float, out: wp.array2d(dtype=float)):
    i, j = wp.tid()
    h = u.shape[0]
    w = u.shape[1]
    c = u[i, j]
    lap = u[(i + 1) % h, j] + u[(i + h - 1) % h, j] + u[i, (j + 1) % w] + u[i, (j + w - 1) % w] - 4.0 * c
    out[i, j] = c + rate * lap


@wp.kernel
def react(u: wp.array2d(dtype=float), v: wp.array2d(dtype=float), a: wp.array2d(dtype=float), b: wp.array2d(dtype=float)):
    i, j = wp.tid()
    r = a[i, j] * b[i, j] * b[i, j]
    u[i, j] = a[i, j] - r + 0.035 * (1.0 - a[i, j])
    v[i, j] = b[i, j] + r - 0.1 * b[i, j]


class GrayScott:
    def __init__(self, n, device="cuda:0"):
        self.device = wp.get_device(device)
        self.shape = (n, n)
        seed = np.zeros((n, n), np.float32)
        seed[n // 2 - 8 : n // 2 + 8, n // 2 - 8 : n // 2 + 8] = 0.5
        self.u = wp.array(1.0 - seed, dtype=float, device=self.device)
        self.v = wp.array(seed, dtype=float, device=self.device)
        self.a = wp.zeros_like(self.u)
        self.b = wp.zeros_like(self.v)
        self.main = wp.Stream(self.device)
        self.side = wp.Stream(self.device)
        wp.load_module(device=self.device)
        wp.synchronize_device(self.device)
        self.graph = self._record()

    def _record(self):
        with wp.ScopedStream(self.main):
            with wp.ScopedCapture() as cap:
                self.side.wait_event(self.main.record_event())
                wp.launch(diffuse, self.shape, inputs=[self.u, 0.16, self.a], stream=self.main)
                wp.launch(diffuse, self.shape, inputs=[self.v, 0.08, self.b], stream=self.side)
                self.main.wait_event(self.side.record_event())
                wp.launch(react, self.shape, inputs=[self.u, self.v, self.a, self.b], stream=self.main)
        return cap.graph

    def run(self, steps):
        for _ in range(steps):
            wp.capture_launch(self.graph, stream=self.main)
        wp.synchronize_stream(self.main)
        return self.v.numpy()


if __name__ == "__main__":
    wp.init()
    print(GrayScott(256).run(2000).std())
