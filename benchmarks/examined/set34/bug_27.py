"""Force evaluation with bonded and nonbonded kernels on separate queues."""
import math

import numpy as np
from numba import cuda

TPB = 128


@cuda.jit
def bonded_kernel(pos, bonds, k, r0, energy, force):
    i = cuda.grid(1)
    if i < bonds.shape[0]:
        a, b = bonds[i, 0], bonds[i, 1]
        dx = pos[b, 0] - pos[a, 0]
        dy = pos[b, 1] - pos[a, 1]
        dz = pos[b, 2] - pos[a, 2]
        r = math.sqrt(dx * dx + dy * dy + dz * dz) + 1e-6
        energy[a] += 0.5 * k * (r - r0) * (r - r0)
        cuda.atomic.add(force, (a, 0), k * (r - r0) * dx / r)
        cuda.atomic.add(force, (b, 0), -k * (r - r0) * dx / r)


@cuda.jit
def nonbonded_kernel(pos, neigh, cutoff, energy, force):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        e = 0.0
        f = 0.0
        for m in range(neigh.shape[1]):
            j = neigh[i, m]
            dx = pos[j, 0] - pos[i, 0]
            r2 = dx * dx + 0.01
            if r2 < cutoff * cutoff:
                inv6 = 1.0 / (r2 * r2 * r2)
                e += inv6 * inv6 - inv6
                f += dx * inv6
        energy[i] += 0.5 * e
        cuda.atomic.add(force, (i, 0), f)


@cuda.jit
def clear_kernel(energy, force):
    i = cuda.grid(1)
    if i < energy.shape[0]:
        energy[i] = 0.0
        for c in range(3):
            force[i, c] = 0.0


@cuda.jit
def move_kernel(pos, force, dt):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        for c in range(3):
            pos[i, c] += dt * force[i, c]


class ForceField:
    def __init__(self, pos: np.ndarray, bonds: np.ndarray, neigh: np.ndarray):
        self.n = pos.shape[0]
        self.pos = cuda.to_device(pos)
        self.bonds = cuda.to_device(bonds)
        self.neigh = cuda.to_device(neigh)
        self.energy = cuda.device_array(self.n, dtype=np.float64)
        self.force = cuda.device_array((self.n, 3), dtype=np.float64)
        self.main = cuda.stream()
        self.side = cuda.stream()
        self.cleared = cuda.event(timing=False)
        self.side_done = cuda.event(timing=False)
        cuda.synchronize()

    def _blocks(self, count: int) -> int:
        return (count + TPB - 1) // TPB

    def compute(self) -> None:
        clear_kernel[self._blocks(self.n), TPB, self.main](self.energy, self.force)
        self.cleared.record(self.main)
        self.cleared.wait(self.side)
        nonbonded_kernel[self._blocks(self.n), TPB, self.side](
            self.pos, self.neigh, 1.2, self.energy, self.force
        )
        bonded_kernel[self._blocks(self.bonds.shape[0]), TPB, self.main](
            self.pos, self.bonds, 100.0, 0.5, self.energy, self.force
        )
        self.side_done.record(self.side)
        self.side_done.wait(self.main)

    def step(self, dt: float) -> None:
        self.compute()
        move_kernel[self._blocks(self.n), TPB, self.main](self.pos, self.force, dt)

    def total_energy(self) -> float:
        host = self.energy.copy_to_host(stream=self.main)
        self.main.synchronize()
        return float(host.sum())


def main(n: int = 1 << 15, steps: int = 200) -> None:
    rng = np.random.default_rng(0)
    bonds = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1).astype(np.int32)
    neigh = rng.integers(0, n, size=(n, 64)).astype(np.int32)
    ff = ForceField(rng.random((n, 3)), bonds, neigh)
    for step in range(steps):
        ff.step(1e-6)
        if step % 20 == 0:
            print(step, ff.total_energy())


if __name__ == "__main__":
    main()
