"""Lomb-Scargle periodograms with a precompiled raw kernel and user streams."""
import cupy as cp
import numpy as np

_kernel = cp.RawKernel(r"""
extern "C" __global__
void lombscargle(const double* t, const double* y, int n,
                 const double* freqs, int nf, double* pgram) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= nf) return;
    double w = freqs[k], xc = 0, xs = 0, cc = 0, ss = 0, cs = 0;
    for (int i = 0; i < n; ++i) {
        double s, c;
        sincos(w * t[i], &s, &c);
        xc += y[i] * c; xs += y[i] * s; cc += c * c; ss += s * s; cs += c * s;
    }
    double tau = atan2(2 * cs, cc - ss) / (2 * w);
    double ct = cos(w * tau), st = sin(w * tau);
    double a = ct * xc + st * xs, b = ct * xs - st * xc;
    pgram[k] += 0.5 * (a * a / (cc + 1e-12) + b * b / (ss + 1e-12));
}
""", "lombscargle")


class _Launcher:
    def __init__(self, stream, block=128):
        self.stream = stream
        self.block = block

    def __call__(self, t, y, freqs, pgram):
        grid = ((freqs.size + self.block - 1) // self.block,)
        args = (t, y, np.int32(t.size), freqs, np.int32(freqs.size), pgram)
        _kernel(grid, (self.block,), args) if self.stream is None else self._on_stream(grid, args)

    def _on_stream(self, grid, args):
        with self.stream:
            _kernel(grid, (self.block,), args)


def lombscargle(t, y, freqs, stream=None):
    t = cp.asarray(t, cp.float64)
    y = cp.asarray(y, cp.float64)
    freqs = cp.asarray(freqs, cp.float64)
    pgram = cp.zeros(freqs.shape, cp.float64)
    _Launcher(stream)(t, y, freqs, pgram)
    return pgram


def main():
    rng = np.random.default_rng(0)
    freqs = np.linspace(0.01, 10, 200000)
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
    held, peaks = [], []
    for i in range(6):
        t = np.sort(rng.uniform(0, 100, 20000))
        y = np.sin((1 + i) * t) + 0.1 * rng.standard_normal(t.size)
        stream = streams[i % 2]
        pgram = lombscargle(t, y, freqs, stream=stream)
        stream.synchronize()
        with stream:
            peaks.append(float(freqs[int(cp.argmax(pgram))]))
        held.append(pgram)
    print(peaks)


if __name__ == "__main__":
    main()
