"""Leapfrog integrator replayed as a captured graph."""
from typing import Optional

import cupy
import numpy

_KICK = cupy.ElementwiseKernel(
    "float32 x, float32 k, float32 dt", "float32 v", "v -= k * x * dt", "leapfrog_kick")
_DRIFT = cupy.ElementwiseKernel(
    "float32 v, float32 dt", "float32 x", "x += v * dt", "leapfrog_drift")


class Leapfrog:
    def __init__(self, particles: int, stiffness: float, dt: float, inner: int = 16):
        self.stream = cupy.cuda.Stream(non_blocking=True)
        self.k = numpy.float32(stiffness)
        self.dt = numpy.float32(dt)
        self.inner = inner
        with self.stream:
            self.x = cupy.zeros(particles, cupy.float32)
            self.v = cupy.zeros(particles, cupy.float32)
        self.graph: Optional[cupy.cuda.Graph] = None
        self.steps = 0

    def _advance(self) -> None:
        half = numpy.float32(self.dt * 0.5)
        for _ in range(self.inner):
            _KICK(self.x, self.k, half, self.v)
            _DRIFT(self.v, self.dt, self.x)
            _KICK(self.x, self.k, half, self.v)

    def load(self, x: numpy.ndarray, v: numpy.ndarray) -> None:
        xs = numpy.ascontiguousarray(x, numpy.float32)
        vs = numpy.ascontiguousarray(v, numpy.float32)
        self.x.set(xs, stream=self.stream)
        self.v.set(vs, stream=self.stream)
        self.stream.synchronize()

    def _capture(self) -> None:
        with self.stream:
            self.stream.begin_capture()
            try:
                self._advance()
            finally:
                graph = self.stream.end_capture()
        self.graph = graph

    def run(self, blocks: int) -> None:
        for _ in range(blocks):
            if self.steps == 0:
                with self.stream:
                    self._advance()
            else:
                if self.graph is None:
                    self._capture()
                self.graph.launch(self.stream)
            self.steps += self.inner

    def energy(self) -> float:
        with self.stream:
            kinetic = 0.5 * cupy.square(self.v).sum()
            potential = 0.5 * self.k * cupy.square(self.x).sum()
            return float(kinetic + potential)

    def state(self):
        with self.stream:
            return self.x.get(), self.v.get()

    def close(self) -> None:
        self.stream.synchronize()
        self.graph = None


def drift_of_energy(sim: Leapfrog, x: numpy.ndarray, v: numpy.ndarray, blocks: int) -> float:
    sim.load(x, v)
    before = sim.energy()
    sim.run(blocks)
    return abs(sim.energy() - before) / max(abs(before), 1e-12)
