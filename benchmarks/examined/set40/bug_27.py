"""Cloth patch in Warp with a strain limiter driven from the host."""
import numpy as np
import warp as wp

wp.init()


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3),
              f: wp.array(dtype=wp.vec3), inv_mass: wp.array(dtype=float), dt: float):
    i = wp.tid()
    g = wp.vec3(0.0, -9.81, 0.0)
    if inv_mass[i] > 0.0:
        v[i] = (v[i] + (g + f[i] * inv_mass[i]) * dt) * 0.999
        x[i] = x[i] + v[i] * dt


@wp.kernel
def spring_forces(x: wp.array(dtype=wp.vec3), edges: wp.array(dtype=int, ndim=2),
                  rest: wp.array(dtype=float), k: float,
                  f: wp.array(dtype=wp.vec3), strain: wp.array(dtype=float)):
    e = wp.tid()
    a = edges[e, 0]
    b = edges[e, 1]
    d = x[b] - x[a]
    length = wp.length(d)
    s = (length - rest[e]) / rest[e]
    strain[e] = s
    pull = d * (k * s / wp.max(length, 1.0e-6))
    wp.atomic_add(f, a, pull)
    wp.atomic_add(f, b, -pull)


def grid_edges(n):
    idx = np.arange(n * n).reshape(n, n)
    right = np.stack([idx[:, :-1].ravel(), idx[:, 1:].ravel()], axis=1)
    down = np.stack([idx[:-1].ravel(), idx[1:].ravel()], axis=1)
    return np.concatenate([right, down]).astype(np.int32)


class Cloth:
    def __init__(self, n, spacing, device):
        self.device = device
        ij = np.stack(np.meshgrid(np.arange(n), np.arange(n), indexing="ij"), -1).reshape(-1, 2)
        pos = np.stack([ij[:, 0] * spacing, np.zeros(n * n), ij[:, 1] * spacing], axis=1)
        edges = grid_edges(n)
        inv_mass = np.full(n * n, 50.0, dtype=np.float32)
        inv_mass[:n] = 0.0
        self.x = wp.array(pos.astype(np.float32), dtype=wp.vec3, device=device)
        self.v = wp.zeros(n * n, dtype=wp.vec3, device=device)
        self.f = wp.zeros(n * n, dtype=wp.vec3, device=device)
        self.inv_mass = wp.array(inv_mass, dtype=float, device=device)
        self.edges = wp.array(edges, dtype=int, device=device)
        self.rest = wp.full(len(edges), spacing, dtype=float, device=device)
        self.strain = wp.zeros(len(edges), dtype=float, device=device)
        self.strain_host = wp.zeros(len(edges), dtype=float, device="cpu", pinned=True)
        self.k = 80.0

    def substep(self, dt):
        self.f.zero_()
        wp.launch(spring_forces, dim=self.edges.shape[0],
                  inputs=[self.x, self.edges, self.rest, self.k, self.f, self.strain],
                  device=self.device)
        wp.launch(integrate, dim=self.x.shape[0],
                  inputs=[self.x, self.v, self.f, self.inv_mass, dt], device=self.device)

    def publish(self):
        wp.copy(self.strain_host, self.strain)

    def limit(self, bound):
        s = self.strain_host.numpy()
        worst = float(np.abs(s).max())
        if worst > bound:
            self.k *= 1.05
        return worst


def main(n=96, frames=240, substeps=16):
    device = wp.get_preferred_device()
    cloth = Cloth(n, 0.02, device)
    trace = []
    for _ in range(frames):
        for _ in range(substeps):
            cloth.substep(1.0 / (60.0 * substeps))
        cloth.publish()
        trace.append(cloth.limit(0.08))
    wp.synchronize()
    print("final stiffness", cloth.k, "peak strain", max(trace))


if __name__ == "__main__":
    main()
