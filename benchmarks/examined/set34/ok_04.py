"""Particle binning with ordinary CuPy streams next to work on the null stream."""
import cupy as cp
import numpy as np

deposit = cp.RawKernel(
    r"""
extern "C" __global__
void deposit(const float* x, const float* q, float* grid, int n, int cells) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= n) return;
    float p = x[i] * cells;
    int c = (int)p;
    float w = p - c;
    atomicAdd(grid + (c % cells), q[i] * (1.f - w));
    atomicAdd(grid + ((c + 1) % cells), q[i] * w);
}
""",
    "deposit",
)


class Population:
    def __init__(self, n, charge, seed):
        rng = cp.random.RandomState(seed)
        self.x = rng.uniform(0, 1, n).astype(cp.float32)
        self.v = rng.normal(0, 0.05, n).astype(cp.float32)
        self.q = cp.full(n, charge / n, cp.float32)


class PIC:
    def __init__(self, cells=4096, particles=2_000_000):
        self.cells = cells
        self.populations = [Population(particles, -1.0, 1), Population(particles, 1.0, 2)]
        self.streams = [cp.cuda.Stream() for _ in self.populations]
        self.charge = [cp.zeros(cells, cp.float32) for _ in self.populations]
        k = 2 * np.pi * cp.fft.rfftfreq(cells, 1.0 / cells)
        k[0] = 1.0
        self.k = k

    def _push(self, dt, field):
        for pop, stream, charge in zip(self.populations, self.streams, self.charge):
            with stream:
                cell = (pop.x * self.cells).astype(cp.int32) % self.cells
                sign = cp.sign(pop.q)
                pop.v += dt * sign * field[cell]
                pop.x += dt * pop.v
                pop.x -= cp.floor(pop.x)
                charge.fill(0)
                n = pop.x.size
                deposit(((n + 255) // 256,), (256,), (pop.x, pop.q, charge, np.int32(n), np.int32(self.cells)))

    def _solve(self):
        rho = self.charge[0] + self.charge[1]
        phi = cp.fft.rfft(rho) / (self.k * self.k)
        phi[0] = 0
        return cp.fft.irfft(-1j * self.k * phi, self.cells).astype(cp.float32)

    def run(self, steps, dt=1e-3):
        with cp.cuda.Stream.null:
            field = cp.zeros(self.cells, cp.float32)
            history = []
            for _ in range(steps):
                self._push(dt, field)
                field = self._solve()
                history.append((field * field).sum())
            return cp.stack(history).get()


if __name__ == "__main__":
    print(PIC().run(50)[-1])
