"""Particle stepper that exposes a progress record in mapped memory (Numba)."""
import numpy as np
from numba import cuda


@cuda.jit
def push(pos, vel, dt):
    i = cuda.grid(1)
    if i < pos.shape[0]:
        vel[i] -= pos[i] * dt
        pos[i] += vel[i] * dt


@cuda.jit
def summarise(pos, vel, record):
    lane = cuda.threadIdx.x
    acc = cuda.shared.array(128, dtype=np.float64)
    total = 0.0
    for i in range(lane, pos.shape[0], cuda.blockDim.x):
        total += 0.5 * (pos[i] * pos[i] + vel[i] * vel[i])
    acc[lane] = total
    cuda.syncthreads()
    if lane == 0:
        energy = 0.0
        for j in range(cuda.blockDim.x):
            energy += acc[j]
        record[0] = energy
        record[1] += 1.0


class Oscillators:
    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        self.n = n
        self.stream = cuda.stream()
        self.pos = cuda.to_device(rng.standard_normal(n))
        self.vel = cuda.to_device(rng.standard_normal(n))
        self.record = cuda.mapped_array(2, dtype=np.float64)
        self.record[:] = 0.0
        self.mark = cuda.event(timing=False)
        self.reported = True
        self.last = (0.0, 0)

    def advance(self, steps, dt=1e-3):
        blocks = -(-self.n // 256)
        for _ in range(steps):
            push[blocks, 256, self.stream](self.pos, self.vel, dt)
        summarise[1, 128, self.stream](self.pos, self.vel, self.record)
        self.mark.record(self.stream)
        self.reported = False

    def poll(self):
        if not self.reported and self.mark.query():
            self._read()
        return self.last

    def report(self):
        if not self.reported:
            self.mark.synchronize()
            self._read()
        return self.last

    def _read(self):
        self.last = (float(self.record[0]), int(self.record[1]))
        self.reported = True

    def restart(self):
        self.stream.synchronize()
        self.record[1] = 0.0
        self._read()

    def positions(self):
        host = self.pos.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        return host


def simulate(n=1 << 18, rounds=20, drift=0.05):
    system = Oscillators(n)
    system.advance(1)
    start, _ = system.report()
    for _ in range(rounds):
        system.advance(50)
        energy, _ = system.poll()
        if abs(energy - start) > drift * start:
            system.restart()
            break
    return system.report(), system.positions()
