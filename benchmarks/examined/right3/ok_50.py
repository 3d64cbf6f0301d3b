"""A fixed time step recorded as a CuPy graph."""
import cupy as cp
import numpy as np

_kick = cp.RawKernel(
    r"""
extern "C" __global__ void kick(const float *x, float *v, float k, float dt, int n)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) v[i] -= dt * k * x[i]; }
""",
    "kick",
)
_drift = cp.RawKernel(
    r"""
extern "C" __global__ void drift(float *x, const float *v, float dt, int n)
{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += dt * v[i]; }
""",
    "drift",
)


class Oscillators:
    def __init__(self, n: int, substeps: int, k: float = 1.0, dt: float = 1e-2):
        self.n, self.substeps = n, substeps
        self.k, self.dt = np.float32(k), np.float32(dt)
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.x = cp.random.standard_normal(n, dtype=cp.float32)
            self.v = cp.zeros(n, dtype=cp.float32)
        self._graph = None

    def _substep(self) -> None:
        grid, block = ((self.n + 255) // 256,), (256,)
        _kick(grid, block, (self.x, self.v, self.k, self.dt, np.int32(self.n)))
        _drift(grid, block, (self.x, self.v, self.dt, np.int32(self.n)))

    @property
    def graph(self):
        if self._graph is None:
            _kick.compile()
            _drift.compile()
            with self.stream:
                self._substep()
                self.stream.synchronize()
                self.stream.begin_capture()
                for _ in range(self.substeps):
                    self._substep()
                self._graph = self.stream.end_capture()
        return self._graph

    def advance(self, frames: int) -> None:
        graph = self.graph
        for _ in range(frames):
            graph.launch(self.stream)

    def energy(self) -> float:
        with self.stream:
            return float((self.v ** 2 + self.k * self.x ** 2).sum()) / 2

    def push(self, amount: np.ndarray) -> None:
        with self.stream:
            self.v += cp.asarray(amount, blocking=True)


def main():
    system = Oscillators(1 << 20, substeps=8)
    rng = np.random.default_rng(0)
    for _ in range(10):
        system.advance(25)
        print(system.energy())
        system.push(rng.standard_normal(1 << 20).astype(np.float32) * 0.01)


if __name__ == "__main__":
    main()
