"""Two-species drift-kinetic push in CuPy; species live on their own streams, fields on the default one."""
import cupy as cp

_push = cp.ElementwiseKernel(
    "raw T e, T qm_dt, T length", "T x, T v",
    """
    int cell = (int)x % _ncells(e);
    v += qm_dt * e[cell];
    x = fmod(x + v + length, length);
    """,
    "species_push",
    preamble="template <class A> __device__ int _ncells(const A& a) { return (int)a.size(); }",
)


class Species:
    def __init__(self, name, count, charge, cells):
        self.name, self.charge = name, charge
        self.x = cp.random.random(count) * cells
        self.v = cp.random.standard_normal(count) * 0.01
        self.stream = cp.cuda.Stream(non_blocking=True)


class DriftKinetic:
    def __init__(self, cells=8192, count=2_000_000):
        self.cells = cells
        self.e = cp.zeros(cells)
        self.rho = cp.zeros(cells)
        self.species = [Species("electron", count, -1.0, cells), Species("ion", count, 1.0, cells)]
        cp.cuda.Device().synchronize()

    def push(self, dt):
        for s in self.species:
            with s.stream:
                _push(self.e, s.charge * dt, float(self.cells), s.x, s.v)

    def solve(self):
        self.rho[...] = 0
        for s in self.species:
            cp.add.at(self.rho, s.x.astype(cp.int32) % self.cells, s.charge)
        k = cp.fft.rfftfreq(self.cells)
        k[0] = 1.0
        phi = cp.fft.rfft(self.rho) / k ** 2
        phi[0] = 0
        self.e[...] = -cp.gradient(cp.fft.irfft(phi, self.cells))

    def run(self, steps, dt=0.05):
        history = []
        for n in range(steps):
            self.push(dt)
            self.solve()
            if n % 20 == 0:
                history.append(float((self.e ** 2).sum()))
        return history


if __name__ == "__main__":
    print(DriftKinetic().run(200))
