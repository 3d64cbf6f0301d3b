"""Spring network in Warp: a captured graph steps the state and ends in a pinned read-back."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def spring_forces(
    x: wp.array(dtype=wp.vec3),
    pairs: wp.array(dtype=wp.int32, ndim=2),
    rest: wp.array(dtype=float),
    stiffness: float,
    f: wp.array(dtype=wp.vec3),
):
    s = wp.tid()
    i = pairs[s, 0]
    j = pairs[s, 1]
    d = x[j] - x[i]
    length = wp.length(d)
    push = d * (stiffness * (length - rest[s]) / (length + 1.0e-6))
    wp.atomic_add(f, i, push)
    wp.atomic_sub(f, j, push)


@wp.kernel
def integrate(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    f: wp.array(dtype=wp.vec3),
    dt: float,
    drag: float,
):
    i = wp.tid()
    v[i] = (v[i] + f[i] * dt) * (1.0 - drag)
    x[i] = x[i] + v[i] * dt
    f[i] = wp.vec3(0.0, 0.0, 0.0)


@wp.kernel
def kinetic(v: wp.array(dtype=wp.vec3), e: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(e, 0, 0.5 * wp.dot(v[i], v[i]))


class SpringSim:
    def __init__(self, side, device="cuda:0", substeps=16):
        self.device = wp.get_device(device)
        self.substeps = substeps
        pos, pairs, rest = self._grid(side)
        self.n, self.m = len(pos), len(pairs)
        self.x = wp.array(pos, dtype=wp.vec3, device=self.device)
        self.v = wp.zeros(self.n, dtype=wp.vec3, device=self.device)
        self.f = wp.zeros(self.n, dtype=wp.vec3, device=self.device)
        self.pairs = wp.array(pairs, dtype=wp.int32, device=self.device)
        self.rest = wp.array(rest, dtype=float, device=self.device)
        self.energy = wp.zeros(1, dtype=float, device=self.device)
        self.energy_host = wp.zeros(1, dtype=float, device="cpu", pinned=True)
        self.stream = wp.Stream(self.device)
        wp.load_module(device=self.device)
        with wp.ScopedStream(self.stream):
            with wp.ScopedCapture(stream=self.stream) as capture:
                self._record()
        self.graph = capture.graph

    @staticmethod
    def _grid(side):
        idx = np.arange(side * side).reshape(side, side)
        pos = np.stack([idx % side, idx // side, np.zeros_like(idx)], -1).reshape(-1, 3)
        pairs = np.concatenate([
            np.stack([idx[:, :-1].ravel(), idx[:, 1:].ravel()], 1),
            np.stack([idx[:-1].ravel(), idx[1:].ravel()], 1),
        ])
        return pos.astype(np.float32), pairs.astype(np.int32), np.full(len(pairs), 0.9, np.float32)

    def _record(self):
        for _ in range(self.substeps):
            wp.launch(spring_forces, dim=self.m, inputs=[self.x, self.pairs, self.rest, 50.0, self.f])
            wp.launch(integrate, dim=self.n, inputs=[self.x, self.v, self.f, 1.0e-3, 1.0e-3])
        self.energy.zero_()
        wp.launch(kinetic, dim=self.n, inputs=[self.v, self.energy])
        wp.copy(self.energy_host, self.energy, stream=self.stream)

    def step(self):
        wp.capture_launch(self.graph, stream=self.stream)

    def read_energy(self):
        wp.synchronize_stream(self.stream)
        return float(self.energy_host.numpy()[0])


def main():
    sim = SpringSim(256)
    trace = []
    for frame in range(120):
        sim.step()
        if frame % 20 == 19:
            trace.append(round(sim.read_energy(), 4))
    print("kinetic energy", trace)


if __name__ == "__main__":
    main()
