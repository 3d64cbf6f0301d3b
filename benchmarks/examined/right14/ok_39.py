"""Particle stepping with per-step parameters in mapped host memory."""
from __future__ import annotations

import numpy as np
from numba import cuda


@cuda.jit
def advance(pos, vel, params):
    i = cuda.grid(1)
    if i >= pos.shape[0]:
        return
    dt = params[0]
    for k in range(3):
        vel[i, k] += dt * (params[1 + k] - params[4] * vel[i, k])
        p = pos[i, k] + dt * vel[i, k]
        if p < 0.0:
            p = -p
            vel[i, k] = -vel[i, k]
        elif p > 1.0:
            p = 2.0 - p
            vel[i, k] = -vel[i, k]
        pos[i, k] = p


@cuda.jit
def energy(vel, total):
    i = cuda.grid(1)
    if i < vel.shape[0]:
        e = 0.0
        for k in range(3):
            e += 0.5 * vel[i, k] * vel[i, k]
        cuda.atomic.add(total, 0, e)


class ParticleBox:
    def __init__(self, count: int, seed: int = 0, depth: int = 4) -> None:
        rng = np.random.default_rng(seed)
        self.count = count
        self.stream = cuda.stream()
        self.pos = cuda.to_device(rng.random((count, 3)))
        self.vel = cuda.to_device(rng.standard_normal((count, 3)))
        self.params = [cuda.mapped_array(5, dtype=np.float64) for _ in range(depth)]
        self.total = cuda.mapped_array(1, dtype=np.float64)
        self.used = [cuda.event(timing=False) for _ in range(depth)]
        self.steps = 0
        cuda.synchronize()

    def step(self, dt: float, force: tuple[float, float, float], drag: float) -> None:
        slot = self.steps % len(self.params)
        self.used[slot].synchronize()
        params = self.params[slot]
        params[0] = dt
        params[1:4] = force
        params[4] = drag
        blocks = -(-self.count // 256)
        advance[blocks, 256, self.stream](self.pos, self.vel, params)
        self.used[slot].record(self.stream)
        self.steps += 1

    def kinetic(self) -> float:
        self.stream.synchronize()
        self.total[0] = 0.0
        blocks = -(-self.count // 256)
        energy[blocks, 256, self.stream](self.vel, self.total)
        self.stream.synchronize()
        return float(self.total[0])

    def positions(self) -> np.ndarray:
        host = np.empty((self.count, 3))
        self.pos.copy_to_host(host, stream=self.stream)
        self.stream.synchronize()
        return host


def main() -> None:
    box = ParticleBox(200_000)
    for step in range(200):
        phase = 0.05 * step
        box.step(1e-3, (np.cos(phase), np.sin(phase), -9.8), 0.1)
        if step % 50 == 49:
            print(step, box.kinetic())
    print(box.positions().mean(axis=0))


if __name__ == "__main__":
    main()
