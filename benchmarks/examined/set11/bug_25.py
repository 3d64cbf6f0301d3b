"""Particle deposition with Numba, reductions with CuPy, exchanged over the CUDA Array Interface."""
import math
from typing import List

import cupy as cp
import numpy as np
from numba import cuda

TPB = 128


@cuda.jit
def deposit_charge(x, w, rho, inv_dx):
    i = cuda.grid(1)
    if i < x.shape[0]:
        cell = x[i] * inv_dx
        left = int(math.floor(cell))
        frac = cell - left
        cuda.atomic.add(rho, left % rho.shape[0], w[i] * (1.0 - frac))
        cuda.atomic.add(rho, (left + 1) % rho.shape[0], w[i] * frac)


@cuda.jit
def push(x, v, dt, length):
    i = cuda.grid(1)
    if i < x.shape[0]:
        x[i] = (x[i] + dt * v[i]) % length


def as_cupy(obj) -> cp.ndarray:
    """Zero-copy view of any object that exports the CUDA Array Interface."""
    cai = obj.__cuda_array_interface__
    dtype = np.dtype(cai["typestr"])
    ptr, readonly = cai["data"]
    nbytes = int(np.prod(cai["shape"])) * dtype.itemsize
    mem = cp.cuda.UnownedMemory(ptr, nbytes, obj)
    return cp.ndarray(cai["shape"], dtype=dtype, memptr=cp.cuda.MemoryPointer(mem, 0))


class Species:
    def __init__(self, x: np.ndarray, v: np.ndarray, w: np.ndarray, grid: int, length: float):
        self.stream = cuda.stream()
        self.length, self.grid = length, grid
        self.x = cuda.to_device(x, stream=self.stream)
        self.v = cuda.to_device(v, stream=self.stream)
        self.w = cuda.to_device(w, stream=self.stream)
        self.zero = np.zeros(grid)
        self.rho = cuda.device_array(grid, dtype=np.float64, stream=self.stream)
        self.stream.synchronize()

    def step(self, dt: float):
        blocks = (self.x.shape[0] + TPB - 1) // TPB
        self.rho.copy_to_device(self.zero, stream=self.stream)
        push[blocks, TPB, self.stream](self.x, self.v, dt, self.length)
        deposit_charge[blocks, TPB, self.stream](self.x, self.w, self.rho, self.grid / self.length)
        return self.rho


class FieldDiagnostics:
    def __init__(self, grid: int):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.energy: List[float] = []

    def record(self, rho) -> None:
        with self.stream:
            spectrum = cp.fft.rfft(as_cupy(rho))
            self.energy.append(float(cp.sum(cp.abs(spectrum) ** 2).get()))


def run(species: Species, diagnostics: FieldDiagnostics, steps: int, dt: float) -> List[float]:
    for _ in range(steps):
        diagnostics.record(species.step(dt))
    return diagnostics.energy
