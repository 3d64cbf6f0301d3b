"""Radar pulse compression: Numba makes the phase ramps, CuPy multiplies them in."""
import cupy as cp
import numpy as np
from numba import cuda

N = 1 << 20


@cuda.jit
def ramp(out, slope):
    i = cuda.grid(1)
    if i < out.size:
        t = i - out.size // 2
        out[i] = slope * t * t


class Compressor:
    def __init__(self):
        self.nb_stream = cuda.stream()
        self.cp_stream = cp.cuda.Stream(non_blocking=True)
        self.phase = cuda.device_array(N, np.float32)
        with self.cp_stream:
            self.pulse = cp.ones(N, cp.complex64)

    def compress(self, slope):
        ramp[N // 256, 256, self.nb_stream](self.phase, slope)
        with self.cp_stream:
            phase = cp.asarray(self.phase)
            spun = self.pulse * cp.exp(1j * phase)
            return complex(spun.sum())


def main():
    compressor = Compressor()
    for k in range(1, 60):
        print(k, abs(compressor.compress(np.float32(k * 1e-10))))


if __name__ == "__main__":
    main()
