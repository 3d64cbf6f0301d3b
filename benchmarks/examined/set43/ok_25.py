"""Cloth-like mass grid: solve on one Warp stream, gather statistics on another."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), f: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    nv = (v[i] + f[i] * dt) * 0.999
    v[i] = nv
    x[i] = x[i] + nv * dt


@wp.kernel
def springs(x: wp.array(dtype=wp.vec3), f: wp.array(dtype=wp.vec3), w: int, h: int, rest: float, k: float):
    i = wp.tid()
    c = i % w
    r = i / w
    force = wp.vec3(0.0, -9.81, 0.0)
    if c > 0:
        d = x[i - 1] - x[i]
        force += wp.normalize(d) * ((wp.length(d) - rest) * k)
    if c < w - 1:
        d = x[i + 1] - x[i]
        force += wp.normalize(d) * ((wp.length(d) - rest) * k)
    if r > 0:
        d = x[i - w] - x[i]
        force += wp.normalize(d) * ((wp.length(d) - rest) * k)
    if r < h - 1:
        d = x[i + w] - x[i]
        force += wp.normalize(d) * ((wp.length(d) - rest) * k)
    if r == 0:
        force = wp.vec3(0.0, 0.0, 0.0)
    f[i] = force


@wp.kernel
def energy(v: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(out, 0, 0.5 * wp.dot(v[i], v[i]))


class Sheet:
    def __init__(self, w=200, h=200, rest=0.02, device="cuda:0"):
        yy, xx = np.mgrid[0:h, 0:w]
        pts = np.stack([xx * rest, -yy * rest, np.zeros_like(xx, dtype=float)], axis=-1).reshape(-1, 3)
        self.w, self.h, self.rest = w, h, rest
        self.n = w * h
        self.device = device
        self.x = wp.array(pts, dtype=wp.vec3, device=device)
        self.v = wp.zeros(self.n, dtype=wp.vec3, device=device)
        self.f = wp.zeros(self.n, dtype=wp.vec3, device=device)
        self.kinetic = wp.zeros(1, dtype=float, device=device)
        self.stats = wp.Stream(device)

    def solve(self, substeps, dt):
        for _ in range(substeps):
            wp.launch(springs, dim=self.n, inputs=[self.x, self.f, self.w, self.h, self.rest, 900.0],
                      device=self.device)
            wp.launch(integrate, dim=self.n, inputs=[self.x, self.v, self.f, dt], device=self.device)

    def measure(self):
        with wp.ScopedStream(self.stats):
            self.kinetic.zero_()
            wp.launch(energy, dim=self.n, inputs=[self.v, self.kinetic], device=self.device)
        wp.wait_stream(self.stats)

    def energy_value(self):
        return float(self.kinetic.numpy()[0])


def main():
    sheet = Sheet()
    trace = []
    for frame in range(120):
        sheet.solve(8, 1.0 / 2000.0)
        sheet.measure()
        if frame % 10 == 0:
            trace.append(sheet.energy_value())
    print("kinetic", [round(t, 3) for t in trace])


if __name__ == "__main__":
    main()
