"""Particle cull: survivors are counted into mapped host memory each frame."""
import math

import numpy as np
from numba import cuda

TPB = 256


@cuda.jit
def age_particles(life, dt):
    i = cuda.grid(1)
    if i < life.size:
        life[i] -= dt


@cuda.jit
def cull(life, alive, tally):
    i = cuda.grid(1)
    if i < life.size:
        ok = 1 if life[i] > 0.0 else 0
        alive[i] = ok
        if ok:
            cuda.atomic.add(tally, 0, 1)
        else:
            cuda.atomic.add(tally, 1, 1)


@cuda.jit
def respawn(life, alive, value):
    i = cuda.grid(1)
    if i < life.size and alive[i] == 0:
        life[i] = value


class Emitter:
    def __init__(self, n, seed=5):
        rng = np.random.default_rng(seed)
        self.n = n
        self.blocks = math.ceil(n / TPB)
        self.stream = cuda.stream()
        self.life = cuda.to_device(rng.uniform(0.1, 3.0, n).astype(np.float32), stream=self.stream)
        self.alive = cuda.device_array(n, dtype=np.int32, stream=self.stream)
        self.tally = cuda.mapped_array(2, dtype=np.int32)
        self.history = []

    def frame(self, dt):
        self.tally[:] = 0
        with self.stream.auto_synchronize():
            age_particles[self.blocks, TPB, self.stream](self.life, dt)
            cull[self.blocks, TPB, self.stream](self.life, self.alive, self.tally)
        live, dead = int(self.tally[0]), int(self.tally[1])
        if dead > self.n // 10:
            respawn[self.blocks, TPB, self.stream](self.life, self.alive, np.float32(2.5))
        self.history.append((live, dead))
        return live

    def lifetimes(self):
        host = np.empty(self.n, dtype=np.float32)
        self.life.copy_to_host(host, stream=self.stream)
        self.stream.synchronize()
        return host


def main(n=1 << 20, frames=120):
    em = Emitter(n)
    low = n
    for _ in range(frames):
        low = min(low, em.frame(np.float32(1.0 / 60.0)))
    left = em.lifetimes()
    print("lowest live count", low, "mean life", float(left.mean()))
    assert all(a + b == n for a, b in em.history)


if __name__ == "__main__":
    main()
