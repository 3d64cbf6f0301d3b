"""Peak search over correlation spectra with PyCUDA."""
from typing import List, Optional, Tuple

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
import pycuda.gpuarray as gpuarray
from pycuda.compiler import SourceModule

_MODULE = SourceModule(
    r"""
__global__ void correlate(const float *signal, const float *taps, float *out, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float acc = 0.0f;
    for (int k = 0; k < m; ++k)
        acc += signal[(i + k) % n] * taps[k];
    out[i] = acc;
}
"""
)


class Correlator:
    def __init__(self, length: int, taps: np.ndarray):
        self.length = length
        self.taps = gpuarray.to_gpu(taps.astype(np.float32))
        self.kernel = _MODULE.get_function("correlate")
        self.signal_host = drv.pagelocked_empty(length, np.float32)
        self.out_host = drv.pagelocked_zeros(length, np.float32)
        self.signal = gpuarray.empty(length, np.float32)
        self.out = gpuarray.empty(length, np.float32)

    def _launch(self, stream: Optional[drv.Stream]) -> None:
        threads = 256
        self.kernel(
            self.signal.gpudata,
            self.taps.gpudata,
            self.out.gpudata,
            np.int32(self.length),
            np.int32(self.taps.size),
            block=(threads, 1, 1),
            grid=((self.length + threads - 1) // threads, 1),
            stream=stream,
        )

    def run(self, samples: np.ndarray, stream: Optional[drv.Stream] = None) -> np.ndarray:
        """With a stream the result is ready after stream.synchronize()."""
        np.copyto(self.signal_host, samples)
        self.signal.set_async(self.signal_host, stream)
        self._launch(stream)
        self.out.get_async(stream, self.out_host)
        return self.out_host


def find_peak(spectrum: np.ndarray, guard: int = 8) -> Tuple[int, float]:
    index = int(np.argmax(np.abs(spectrum)))
    value = float(spectrum[index])
    noise = np.delete(spectrum, np.arange(max(0, index - guard), index + guard))
    return index, value / float(noise.std() + 1e-9)


class Scanner:
    def __init__(self, length: int, taps: np.ndarray):
        self.correlator = Correlator(length, taps)
        self.stream = drv.Stream()

    def scan_one(self, samples: np.ndarray) -> Tuple[int, float]:
        return find_peak(self.correlator.run(samples))

    def scan_many(self, batch: np.ndarray) -> List[Tuple[int, float]]:
        peaks = []
        for samples in batch:
            spectrum = self.correlator.run(samples, self.stream)
            self.stream.synchronize()
            peaks.append(find_peak(spectrum))
        return peaks


def main() -> None:
    rng = np.random.default_rng(3)
    length, taps = 1 << 20, rng.standard_normal(512)
    scanner = Scanner(length, taps)
    batch = rng.standard_normal((8, length)).astype(np.float32)
    print(scanner.scan_many(batch)[:2])
    for samples in batch:
        print(scanner.scan_one(samples))


if __name__ == "__main__":
    main()
