"""Filter bank on the GPU: transfers on streams of their own, kernels on the legacy default stream."""
import math

import numpy as np
from numba import cuda


@cuda.jit
def fir(signal, taps, out):
    i = cuda.grid(1)
    if i < out.shape[0]:
        acc = 0.0
        for k in range(taps.shape[0]):
            if i >= k:
                acc += taps[k] * signal[i - k]
        out[i] = acc


@cuda.jit
def magnitude(out, power):
    i = cuda.grid(1)
    if i < out.shape[0]:
        power[i] = math.log1p(out[i] * out[i])


class FilterBank:
    """Page locked buffers, device buffers and the three streams of the bank."""

    def __init__(self, n, taps):
        self.n = n
        self.compute = cuda.legacy_default_stream()
        self.upload = cuda.stream()
        self.download = cuda.stream()
        self.h_in = cuda.pinned_array(n, dtype=np.float32)
        self.h_out = cuda.pinned_array(n, dtype=np.float32)
        self.d_in = cuda.device_array(n, dtype=np.float32)
        self.d_mid = cuda.device_array(n, dtype=np.float32)
        self.d_out = cuda.device_array(n, dtype=np.float32)
        self.d_taps = cuda.to_device(np.asarray(taps, dtype=np.float32))
        self.block = 256
        self.grid = (n + self.block - 1) // self.block

    def _launch(self):
        fir[self.grid, self.block, self.compute](self.d_in, self.d_taps, self.d_mid)
        magnitude[self.grid, self.block, self.compute](self.d_mid, self.d_out)

    def process(self, samples):
        self.h_in[:] = samples
        self.d_in.copy_to_device(self.h_in, stream=self.upload)
        self._launch()
        self.d_out.copy_to_host(self.h_out, stream=self.download)
        self.download.synchronize()
        return self.h_out.copy()

    def process_all(self, frames):
        return np.stack([self.process(f) for f in frames])


def main(n=1 << 20, frames=8, taps=64):
    rng = np.random.default_rng(0)
    bank = FilterBank(n, rng.standard_normal(taps))
    data = rng.standard_normal((frames, n)).astype(np.float32)
    return bank.process_all(data)


if __name__ == "__main__":
    print(main().shape)
