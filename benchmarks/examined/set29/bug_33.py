"""Pool allocator for the dynamical core. Allocations are served from one slab
by a first-fit search, so that allocate and free never touch the driver."""
import bisect

import cupy as cp

ALIGN = 512


class Gator:
    def __init__(self, nbytes):
        self.base = cp.cuda.runtime.malloc(nbytes)
        self.holes = [(self.base, nbytes)]
        self.sizes = {}

    def allocate(self, nbytes, device_id):
        nbytes = max(ALIGN, (nbytes + ALIGN - 1) // ALIGN * ALIGN)
        for i, (ptr, size) in enumerate(self.holes):
            if size >= nbytes:
                if size == nbytes:
                    self.holes.pop(i)
                else:
                    self.holes[i] = (ptr + nbytes, size - nbytes)
                self.sizes[ptr] = nbytes
                return ptr
        raise MemoryError("pool exhausted")

    def deallocate(self, ptr, device_id):
        size = self.sizes.pop(ptr)
        i = bisect.bisect(self.holes, (ptr, size))
        if i < len(self.holes) and ptr + size == self.holes[i][0]:
            size += self.holes.pop(i)[1]
        if i > 0 and sum(self.holes[i - 1]) == ptr:
            ptr, size = self.holes[i - 1][0], self.holes[i - 1][1] + size
            self.holes.pop(i - 1)
            i -= 1
        self.holes.insert(i, (ptr, size))


_flux = cp.ElementwiseKernel(
    "raw float64 q, raw float64 u, int64 n", "float64 f",
    "f = 0.5 * u[i] * (q[i] + q[(i + n - 1) % n]) - 0.5 * fabs(u[i]) * (q[i] - q[(i + n - 1) % n])",
    "upwind_flux")
_update = cp.ElementwiseKernel(
    "raw float64 f, float64 dtdx, int64 n", "float64 q",
    "q -= dtdx * (f[(i + 1) % n] - f[i])", "apply_flux")


class Tracers:
    def __init__(self, n_tracers, n):
        self.n = n
        self.u = cp.full(n, 0.4)
        self.q = [cp.sin(cp.linspace(0, 6.28, n) * (k + 1)) for k in range(n_tracers)]
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(n_tracers)]

    def _advect(self, q, dtdx):
        f = cp.empty_like(q)
        _flux(q, self.u, self.n, f)
        _update(f, dtdx, self.n, q)

    def step(self, dtdx):
        for q, stream in zip(self.q, self.streams):
            with stream:
                self._advect(q, dtdx)


def main():
    pool = Gator(1 << 30)
    cp.cuda.set_allocator(cp.cuda.PythonFunctionAllocator(pool.allocate, pool.deallocate).malloc)
    tracers = Tracers(4, 1 << 21)
    cp.cuda.Device().synchronize()
    for _ in range(50):
        tracers.step(0.5)
    cp.cuda.Device().synchronize()
    print([float(abs(q).max()) for q in tracers.q])


if __name__ == "__main__":
    main()
