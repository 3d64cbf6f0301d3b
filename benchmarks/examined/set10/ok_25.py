import cupy as cp
import numpy as np


class ChunkReader:
    """Reads fixed size chunks of a raw file into one reused host array."""

    def __init__(self, path, chunk, dtype=np.int16):
        self.path = path
        self.host = np.empty(chunk, dtype=dtype)

    def __iter__(self):
        with open(self.path, "rb", buffering=0) as f:
            while True:
                n = f.readinto(memoryview(self.host).cast("B"))
                if not n:
                    return
                yield self.host[: n // self.host.itemsize]


class SpectrumAccumulator:
    def __init__(self, nfft):
        self.nfft = nfft
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.window = cp.hanning(nfft).astype(cp.float32)
            self.power = cp.zeros(nfft // 2 + 1, dtype=cp.float64)
        self.segments = 0

    def update(self, samples):
        with self.stream:
            x = cp.asarray(samples).astype(cp.float32)
            n = x.size // self.nfft
            if n == 0:
                return
            frames = x[: n * self.nfft].reshape(n, self.nfft) * self.window
            spec = cp.fft.rfft(frames, axis=1)
            self.power += (spec.real**2 + spec.imag**2).sum(axis=0)
            self.segments += n

    def result(self):
        with self.stream:
            mean = self.power / max(self.segments, 1)
            return cp.asnumpy(10.0 * cp.log10(mean + 1e-12))


def welch(path, nfft=4096, chunk=1 << 22):
    acc = SpectrumAccumulator(nfft)
    for samples in ChunkReader(path, chunk):
        acc.update(samples)
    return acc.result()


def peaks(path, count=10, **kwargs):
    spectrum = welch(path, **kwargs)
    order = np.argsort(spectrum)[::-1][:count]
    return [(int(i), float(spectrum[i])) for i in order]
