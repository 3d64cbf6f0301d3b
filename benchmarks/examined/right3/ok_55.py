"""CuPy arrays passed to Numba through the CUDA array interface."""
import cupy as cp
import numpy as np
from numba import cuda


@cuda.jit
def label_runs(values, threshold, labels):
    row = cuda.grid(1)
    if row < values.shape[0]:
        run = 0
        above = False
        for j in range(values.shape[1]):
            now = values[row, j] > threshold
            if now and not above:
                run += 1
            labels[row, j] = run if now else 0
            above = now


class RunLabeller:
    def __init__(self, rows: int, cols: int):
        self.shape = (rows, cols)
        self.prep = cp.cuda.Stream(non_blocking=True)
        self.numba_stream = cuda.stream()
        self.labels = cuda.device_array(self.shape, dtype=np.int32)

    def prepare(self, raw: np.ndarray):
        with self.prep:
            x = cp.asarray(raw)
            kernel = cp.ones(5, dtype=x.dtype) / 5
            spec = cp.fft.rfft(x, axis=1) * cp.fft.rfft(kernel, n=x.shape[1])
            smooth = cp.ascontiguousarray(cp.fft.irfft(spec, n=x.shape[1], axis=1))
            return smooth, cuda.as_cuda_array(smooth, sync=True)

    def label(self, raw: np.ndarray, threshold: float) -> np.ndarray:
        owner, view = self.prepare(raw)
        label_runs[(self.shape[0] + 127) // 128, 128, self.numba_stream](view, threshold, self.labels)
        self.numba_stream.synchronize()
        del view, owner
        with self.prep:
            counts = cp.asarray(self.labels).max(axis=1)
            return counts.get()


def main():
    rng = np.random.default_rng(8)
    labeller = RunLabeller(512, 4096)
    for _ in range(10):
        counts = labeller.label(rng.standard_normal((512, 4096)), 0.5)
        print(int(counts.min()), int(counts.max()))


if __name__ == "__main__":
    main()
