import cupy as cp
import numpy as np


class Scratch:
    """Device memory outside every pool; freed with the object."""

    def __init__(self, nbytes, stream):
        self.nbytes = nbytes
        self.stream = stream
        self.ptr = cp.cuda.runtime.malloc(nbytes)

    def view(self, shape, dtype):
        memory = cp.cuda.UnownedMemory(self.ptr, self.nbytes, self)
        return cp.ndarray(shape, dtype, cp.cuda.MemoryPointer(memory, 0))

    def __del__(self):
        ptr, self.ptr = self.ptr, 0
        if ptr:
            self.stream.synchronize()
            cp.cuda.runtime.free(ptr)


class Deconvolver:
    """Richardson-Lucy steps with a large temporary that comes and goes."""

    def __init__(self, psf, stream):
        self.stream = stream
        with stream:
            self.kernel = cp.asarray(psf)

    def _blur(self, image, out):
        k = self.kernel.shape[0] // 2
        padded = cp.pad(image, k, mode="edge")
        out.fill(0)
        for r in range(self.kernel.shape[0]):
            for c in range(self.kernel.shape[1]):
                out += self.kernel[r, c] * padded[r : r + image.shape[0], c : c + image.shape[1]]

    def run(self, observed, iterations):
        with self.stream:
            data = cp.asarray(observed)
            estimate = cp.full_like(data, float(observed.mean()))
            scratch = Scratch(data.nbytes, self.stream)
            work = scratch.view(data.shape, data.dtype)
            for _ in range(iterations):
                self._blur(estimate, work)
                cp.divide(data, cp.maximum(work, 1e-6), out=work)
                ratio = work.copy()
                self._blur(ratio, work)
                estimate *= work
            return estimate


def main():
    rng = np.random.default_rng(3)
    psf = np.outer(np.hanning(7), np.hanning(7)).astype(np.float32)
    stream = cp.cuda.Stream(non_blocking=True)
    rl = Deconvolver(psf / psf.sum(), stream)
    for k in range(5):
        est = rl.run(rng.random((512, 512), dtype=np.float32), 5)
        with stream:
            print(k, float(est.std()))


if __name__ == "__main__":
    main()
