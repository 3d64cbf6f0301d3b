"""Cloth-like chain solver replayed as a Warp graph."""
import numpy as np
import warp as wp


@wp.kernel
def forces(x: wp.array(dtype=wp.vec3), wind: wp.array(dtype=wp.vec3),
           f: wp.array(dtype=wp.vec3), k: float):
    i = wp.tid()
    acc = wind[0]
    if i > 0:
        acc = acc + (x[i - 1] - x[i]) * k
    if i < x.shape[0] - 1:
        acc = acc + (x[i + 1] - x[i]) * k
    f[i] = acc


@wp.kernel
def advance(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3),
            f: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v[i] = (v[i] + f[i] * dt) * 0.999
    x[i] = x[i] + v[i] * dt


class ChainSolver:
    def __init__(self, n, device="cuda:0", substeps=16):
        self.n = n
        self.substeps = substeps
        self.stream = wp.Stream(device)
        self.wind_host = wp.zeros(1, dtype=wp.vec3, device="cpu", pinned=True)
        self.wind_sent = wp.Event(device)
        with wp.ScopedStream(self.stream):
            self.x = wp.zeros(n, dtype=wp.vec3, device=device)
            self.v = wp.zeros(n, dtype=wp.vec3, device=device)
            self.f = wp.zeros(n, dtype=wp.vec3, device=device)
            self.wind = wp.zeros(1, dtype=wp.vec3, device=device)
            self._substeps(1)
            with wp.ScopedCapture(stream=self.stream) as capture:
                self._substeps(substeps)
        self.graph = capture.graph

    def _substeps(self, count):
        for _ in range(count):
            wp.launch(forces, dim=self.n, inputs=[self.x, self.wind, self.f, 50.0])
            wp.launch(advance, dim=self.n, inputs=[self.x, self.v, self.f, 1e-3])

    def step(self, wind):
        wp.synchronize_event(self.wind_sent)
        self.wind_host.numpy()[0] = wind
        wp.copy(self.wind, self.wind_host, stream=self.stream)
        self.stream.record_event(self.wind_sent)
        wp.capture_launch(self.graph, stream=self.stream)

    def positions(self):
        wp.synchronize_stream(self.stream)
        return self.x.numpy()


def main():
    wp.init()
    solver = ChainSolver(1 << 14)
    for k in range(300):
        solver.step((np.sin(0.05 * k), 0.0, np.cos(0.03 * k)))
    return solver.positions()


if __name__ == "__main__":
    print(main().mean(axis=0))
