"""Filter bank: coefficients sit in constant memory and change from band to band."""
import cupy as cp
import cupyx
import numpy as np

TAPS, N = 64, 1 << 20

CODE = r"""
__constant__ float taps[64];
extern "C" __global__ void fir(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0.f;
    for (int k = 0; k < 64; ++k) if (i >= k) s += taps[k] * x[i - k];
    y[i] = s;
}
"""


class FilterBank:
    def __init__(self, bands):
        self.module = cp.RawModule(code=CODE)
        self.fir = self.module.get_function("fir")
        self.taps = cp.ndarray(TAPS, cp.float32, self.module.get_global("taps"))
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.host_taps = cupyx.empty_pinned((bands, TAPS), np.float32)
        grid = np.arange(TAPS)
        for band in range(bands):
            self.host_taps[band] = np.hanning(TAPS) * np.cos(np.pi * band * grid / bands)

    def run(self, signal):
        rows = []
        with self.stream:
            x = cp.asarray(signal)
            for taps in self.host_taps:
                y = cp.empty(N, cp.float32)
                self.taps.set(taps, stream=self.stream)
                self.fir((N // 256,), (256,), (x, y, np.int32(N)))
                rows.append((y * y).mean())
            return cp.stack(rows).get()


def main():
    rng = np.random.default_rng(43)
    bank = FilterBank(16)
    for _ in range(10):
        print(bank.run(rng.standard_normal(N, dtype=np.float32)))


if __name__ == "__main__":
    main()
