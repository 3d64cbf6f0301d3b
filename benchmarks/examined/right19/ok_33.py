"""Jacobi relaxation that checks a mapped residual history a few sweeps late (Numba)."""
import numpy as np
from numba import cuda, float32

TPB = 256


@cuda.jit
def sweep(src, dst, rhs, h2):
    i, j = cuda.grid(2)
    n, m = src.shape
    if 0 < i < n - 1 and 0 < j < m - 1:
        dst[i, j] = 0.25 * (src[i - 1, j] + src[i + 1, j] + src[i, j - 1]
                            + src[i, j + 1] + h2 * rhs[i, j])


@cuda.jit
def change(old, new, history, slot):
    part = cuda.shared.array(TPB, float32)
    t = cuda.threadIdx.x
    n, m = old.shape
    worst = float32(0.0)
    for k in range(t, n * m, TPB):
        d = abs(new[k // m, k % m] - old[k // m, k % m])
        if d > worst:
            worst = d
    part[t] = worst
    cuda.syncthreads()
    s = TPB // 2
    while s > 0:
        if t < s and part[t + s] > part[t]:
            part[t] = part[t + s]
        cuda.syncthreads()
        s //= 2
    if t == 0:
        history[slot] = part[0]


class Relaxation:
    def __init__(self, rhs, lag=4):
        n = rhs.shape[0]
        self.h2 = np.float32(1.0 / (n - 1) ** 2)
        self.work = cuda.stream()
        self.probe = cuda.stream()
        self.rhs = cuda.to_device(rhs)
        self.grids = [cuda.to_device(np.zeros_like(rhs)) for _ in range(2)]
        self.history = cuda.mapped_array(lag, dtype=np.float32)
        self.history[:] = np.inf
        self.swept = cuda.event(timing=False)
        self.probed = [cuda.event(timing=False) for _ in range(lag)]
        self.lag = lag
        self.block = (16, 16)
        self.shape = tuple((s + 15) // 16 for s in rhs.shape)
        cuda.synchronize()

    def _issue(self, k):
        src, dst = self.grids[k % 2], self.grids[(k + 1) % 2]
        if k > 0:
            self.probed[(k - 1) % self.lag].wait(self.work)
        sweep[self.shape, self.block, self.work](src, dst, self.rhs, self.h2)
        self.swept.record(self.work)
        self.swept.wait(self.probe)
        slot = k % self.lag
        change[1, TPB, self.probe](src, dst, self.history, slot)
        self.probed[slot].record(self.probe)

    def _late_change(self, k):
        slot = k % self.lag
        self.probed[slot].synchronize()
        return float(self.history[slot])

    def solve(self, tol, limit):
        seen = np.inf
        k = 0
        while k < limit:
            if k >= self.lag:
                seen = self._late_change(k - self.lag)
                if seen < tol:
                    break
            self._issue(k)
            k += 1
        self.work.synchronize()
        self.probe.synchronize()
        return self.grids[k % 2].copy_to_host(), k, seen


def main():
    n = 257
    y, x = np.mgrid[0:1:complex(n), 0:1:complex(n)]
    rhs = (2 * np.pi ** 2 * np.sin(np.pi * x) * np.sin(np.pi * y)).astype(np.float32)
    field, sweeps, seen = Relaxation(rhs).solve(tol=1e-6, limit=20000)
    print("sweeps", sweeps, "change", seen, "peak", field.max())


if __name__ == "__main__":
    main()
