"""A Runge-Kutta step of a reaction-diffusion system captured with CuPy into one graph."""
import cupy as cp

_rhs = cp.RawKernel(r'''
extern "C" __global__
void rhs(const float* u, float* k, int n, float d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y;
    if (i >= n) return;
    int l = (i + n - 1) % n, r = (i + 1) % n, up = (j + n - 1) % n, dn = (j + 1) % n;
    float c = u[j * n + i];
    k[j * n + i] = d * (u[j * n + l] + u[j * n + r] + u[up * n + i] + u[dn * n + i] - 4.f * c) + c * (1.f - c);
}
''', 'rhs')

_axpy = cp.ElementwiseKernel("T u, T k, T h", "T out", "out = u + h * k", "rk_axpy")
_combine = cp.ElementwiseKernel("T k1, T k2, T h", "T u", "u += 0.5f * h * (k1 + k2)", "rk_combine")


class GraphedHeun:
    def __init__(self, n, d=0.2, h=0.05):
        self.n, self.d, self.h = n, cp.float32(d), cp.float32(h)
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.u = cp.random.random((n, n), dtype=cp.float32)
            self.mid = cp.empty_like(self.u)
            self.k1 = cp.empty_like(self.u)
            self.k2 = cp.empty_like(self.u)
            self._step()
            self.stream.synchronize()
            self.stream.begin_capture()
            self._step()
            self.graph = self.stream.end_capture()

    def _eval(self, src, dst):
        _rhs(((self.n + 127) // 128, self.n), (128,), (src, dst, self.n, self.d))

    def _step(self):
        self._eval(self.u, self.k1)
        _axpy(self.u, self.k1, self.h, self.mid)
        self._eval(self.mid, self.k2)
        _combine(self.k1, self.k2, self.h, self.u)

    def advance(self, steps):
        for _ in range(steps):
            self.graph.launch(self.stream)

    def mean(self):
        with self.stream:
            return float(self.u.mean())


def main():
    solver = GraphedHeun(1024)
    for _ in range(10):
        solver.advance(50)
        print(solver.mean())


if __name__ == "__main__":
    main()
