"""Triangular solves with a precomputed Cholesky factor, callable on JAX arrays."""
from typing import Tuple

import cupy as cp
import jax
import jax.numpy as jnp
import numpy as np

_SOLVE_SRC = r"""
extern "C" __global__
void solve_lower(const int* rows, const int* cols, const float* data, const int* level_ptr,
                 int level, int nrhs, const float* b, float* x, int n)
{
    int slot = blockIdx.x * blockDim.x + threadIdx.x;
    int count = (level_ptr[level + 1] - level_ptr[level]) * nrhs;
    if (slot >= count) return;
    int row = level_ptr[level] + slot / nrhs, rhs = slot % nrhs;
    float acc = b[row * nrhs + rhs];
    int end = rows[row + 1] - 1;
    for (int k = rows[row]; k < end; ++k) acc -= data[k] * x[cols[k] * nrhs + rhs];
    x[row * nrhs + rhs] = acc / data[end];
}
"""


def _wrap(array: jax.Array) -> cp.ndarray:
    """A CuPy view of the memory of a JAX array."""
    owner = cp.cuda.UnownedMemory(array.unsafe_buffer_pointer(), array.nbytes, array)
    return cp.ndarray(array.shape, dtype=np.dtype(array.dtype), memptr=cp.cuda.MemoryPointer(owner, 0))


class CholeskySolverF:
    """``factor``: level-ordered CSR of the lower factor (rows, cols, data, level_ptr)."""

    def __init__(self, factor: Tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]):
        rows, cols, data, level_ptr = factor
        self.n = len(rows) - 1
        self.num_levels = len(level_ptr) - 1
        self.rows, self.cols = cp.asarray(rows, cp.int32), cp.asarray(cols, cp.int32)
        self.data, self.level_ptr = cp.asarray(data, cp.float32), cp.asarray(level_ptr, cp.int32)
        self.level_size = int(np.diff(level_ptr).max())
        self.kernel = cp.RawKernel(_SOLVE_SRC, "solve_lower")
        self.stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.Device().synchronize()

    def solve(self, b: jax.Array) -> jax.Array:
        if b.dtype != jnp.float32 or b.shape[0] != self.n:
            raise TypeError("expected a float32 array with one row per unknown")
        nrhs = 1 if b.ndim == 1 else b.shape[1]
        with self.stream:
            rhs = _wrap(b)
            x = cp.empty(b.shape, dtype=cp.float32)
            blocks = (self.level_size * nrhs + 127) // 128
            for level in range(self.num_levels):
                self.kernel(
                    (blocks,), (128,),
                    (self.rows, self.cols, self.data, self.level_ptr, np.int32(level), np.int32(nrhs), rhs, x, np.int32(self.n)),
                )
        self.stream.synchronize()
        return jax.dlpack.from_dlpack(x)


@jax.jit
def assemble_rhs(positions: jax.Array, weights: jax.Array) -> jax.Array:
    return weights @ positions + 0.1 * positions


def smooth(solver: CholeskySolverF, positions: jax.Array, weights: jax.Array, steps: int) -> jax.Array:
    for _ in range(steps):
        rhs = assemble_rhs(positions, weights)
        positions = solver.solve(rhs)
    return positions
