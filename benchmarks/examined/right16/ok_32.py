"""Particle step split between a worker stream and the null stream."""
from __future__ import annotations

import cupy as cp
import numpy as np

_FORCE = cp.RawKernel(
    r"""
extern "C" __global__
void spring(const float* pos, float* force, float k, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        int left = i == 0 ? n - 1 : i - 1;
        int right = i == n - 1 ? 0 : i + 1;
        force[i] = k * (pos[left] - 2.0f * pos[i] + pos[right]);
    }
}
""",
    "spring",
)


class Chain:
    def __init__(self, count: int, stiffness: float = 0.5, seed: int = 0):
        self.count = count
        self.stiffness = np.float32(stiffness)
        self._null = cp.cuda.Stream.null
        self._worker = cp.cuda.Stream()
        rng = np.random.default_rng(seed)
        with self._null:
            self.pos = cp.asarray(rng.normal(size=count).astype(np.float32))
            self.vel = cp.zeros(count, dtype=np.float32)
            self.force = cp.zeros(count, dtype=np.float32)

    def _compute_force(self) -> None:
        with self._worker:
            grid = ((self.count + 255) // 256,)
            _FORCE(grid, (256,), (self.pos, self.force, self.stiffness, np.int32(self.count)))

    def _integrate(self, dt: float) -> None:
        with self._null:
            self.vel += np.float32(dt) * self.force
            self.pos += np.float32(dt) * self.vel

    def step(self, dt: float = 0.05) -> None:
        self._compute_force()
        self._integrate(dt)

    def kick(self, amount: float) -> None:
        with self._worker:
            noise = cp.full(self.count, amount, dtype=np.float32)
            noise[::2] *= -1
        with self._null:
            self.vel += noise

    def energy(self) -> float:
        with self._null:
            kinetic = 0.5 * cp.square(self.vel).sum()
            stretch = self.pos - cp.roll(self.pos, 1)
            potential = 0.5 * self.stiffness * cp.square(stretch).sum()
            return float(kinetic + potential)

    def snapshot(self) -> np.ndarray:
        with self._null:
            return cp.asnumpy(self.pos)


def main() -> None:
    chain = Chain(100_000)
    before = chain.energy()
    for step in range(200):
        chain.step(0.01)
        if step % 50 == 0:
            chain.kick(0.01)
    print(before, chain.energy(), chain.snapshot()[:4])


if __name__ == "__main__":
    main()
