"""Particle deposition: CuPy prepares, a Numba kernel scatters, CuPy filters."""
import cupy as cp
import numpy as np
from numba import cuda


@cuda.jit
def deposit(pos, weight, grid, inv_dx):
    i = cuda.grid(1)
    if i >= pos.shape[0]:
        return
    x = pos[i, 0] * inv_dx
    y = pos[i, 1] * inv_dx
    ix, iy = int(x), int(y)
    fx, fy = x - ix, y - iy
    n = grid.shape[0]
    for dx in range(2):
        for dy in range(2):
            wx = fx if dx == 1 else 1.0 - fx
            wy = fy if dy == 1 else 1.0 - fy
            cuda.atomic.add(grid, ((ix + dx) % n, (iy + dy) % n), weight[i] * wx * wy)


class Deposition:
    def __init__(self, cells, box):
        self.cells, self.box = cells, box
        self.prep = cp.cuda.Stream(non_blocking=True)
        self.scatter = cuda.stream()
        self.prep_numba = cuda.external_stream(self.prep.ptr)
        k = np.fft.fftfreq(cells).astype(np.float32)
        with self.prep:
            self.smooth = cp.asarray(np.exp(-8.0 * (k[:, None] ** 2 + k[None, :] ** 2)), dtype=cp.float32)

    def density(self, pos, mass):
        """``pos``, ``mass``: numpy arrays."""
        with self.prep:
            p = cp.asarray(pos, dtype=cp.float32) % cp.float32(self.box)
            w = cp.asarray(mass, dtype=cp.float32)
            w = w / w.sum()
            grid = cp.zeros((self.cells, self.cells), dtype=cp.float32)
            n_pos = cuda.as_cuda_array(p, sync=True)
            n_weight = cuda.as_cuda_array(w, sync=True)
            n_grid = cuda.as_cuda_array(grid, sync=True)
        blocks = (p.shape[0] + 255) // 256
        deposit[blocks, 256, self.scatter](n_pos, n_weight, n_grid, np.float32(self.cells / self.box))
        done = cuda.event(timing=False)
        done.record(self.scatter)
        done.wait(self.prep_numba)
        with self.prep:
            spectrum = cp.fft.fft2(grid)
            out = cp.fft.ifft2(spectrum * self.smooth).real.astype(cp.float32)
            host = cp.asnumpy(out)
        del n_pos, n_weight, n_grid
        return host


class Recorder:
    def __init__(self, cells=512, box=1.0):
        self.deposition = Deposition(cells, box)
        self.frames = []

    def add(self, pos, mass):
        self.frames.append(self.deposition.density(pos, mass))

    def contrast(self):
        return [float(f.std() / f.mean()) for f in self.frames]


def run(steps=20, count=1_000_000, seed=0):
    rng = np.random.default_rng(seed)
    pos = rng.random((count, 2), dtype=np.float32)
    vel = rng.normal(0, 0.01, (count, 2)).astype(np.float32)
    mass = rng.random(count, dtype=np.float32)
    recorder = Recorder()
    for _ in range(steps):
        pos += vel
        recorder.add(pos, mass)
    return recorder.contrast()
