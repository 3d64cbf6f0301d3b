"""Time stepping captured into a CUDA graph; diagnostics are written by a host callback of the stream."""
from dataclasses import dataclass, field
from typing import List

import cupy as cp
import cupyx
import numpy as np


@dataclass
class History:
    times: List[float] = field(default_factory=list)
    energies: List[float] = field(default_factory=list)


class Diagnostics:
    """Reads the pinned energy of the step that just ended."""

    def __init__(self, dt: float):
        self.dt = dt
        self.step = 0
        self.history = History()
        self.host_energy = cupyx.zeros_pinned((1,), dtype=np.float64)

    def on_step(self, _arg) -> None:
        self.step += 1
        self.history.times.append(self.step * self.dt)
        self.history.energies.append(float(self.host_energy[0]))


_leapfrog = cp.ElementwiseKernel(
    "float64 lap, float64 c2dt2", "float64 u, float64 v", "v += c2dt2 * lap; u += v;", "leapfrog",
)
_laplacian = cp.RawKernel(r"""
extern "C" __global__ void laplacian(const double* u, double* lap, int n, double inv_dx2) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) lap[i] = (u[(i + n - 1) % n] - 2.0 * u[i] + u[(i + 1) % n]) * inv_dx2;
}""", "laplacian")
_energy = cp.ReductionKernel("float64 v", "float64 e", "v * v", "a + b", "e = 0.5 * a", "0", "kinetic_energy")


class WaveSolver:
    def __init__(self, u0: np.ndarray, c: float, dx: float, dt: float):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.n = u0.size
        self.inv_dx2, self.c2dt2 = 1.0 / dx**2, (c * dt) ** 2
        with self.stream:
            self.u = cp.asarray(u0, dtype=cp.float64)
            self.v = cp.zeros_like(self.u)
            self.lap = cp.zeros_like(self.u)
            self.energy = cp.zeros((), dtype=cp.float64)
        self.diagnostics = Diagnostics(dt)
        self._advance()
        self.stream.synchronize()
        self.graph = self._capture()

    def _advance(self) -> None:
        blocks = ((self.n + 255) // 256,)
        with self.stream:
            _laplacian(blocks, (256,), (self.u, self.lap, np.int32(self.n), self.inv_dx2))
            _leapfrog(self.lap, self.c2dt2, self.u, self.v)
            _energy(self.v, out=self.energy)
            self.energy.data.copy_to_host_async(self.diagnostics.host_energy.ctypes.data, 8, self.stream)

    def _capture(self) -> "cp.cuda.graph.Graph":
        with self.stream:
            self.stream.begin_capture()
            self._advance()
            self.stream.launch_host_func(self.diagnostics.on_step, self.n)
            return self.stream.end_capture()

    def run(self, steps: int) -> History:
        for _ in range(steps):
            self.graph.launch(self.stream)
        self.stream.synchronize()
        return self.diagnostics.history
