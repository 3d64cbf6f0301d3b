"""Matched filter bank: nvmath transforms, CuPy multiplies with the templates."""
import cupy as cp
import numpy as np
import nvmath


class FilterBank:
    def __init__(self, templates):
        count, n = templates.shape
        self.transform_stream = cp.cuda.Stream(non_blocking=True)
        self.score_stream = cp.cuda.Stream(non_blocking=True)
        self.templates = cp.conj(cp.fft.fft(cp.asarray(templates, dtype=cp.complex64), axis=1))
        self.strain = cp.zeros(n, cp.complex64)
        cp.cuda.Device().synchronize()
        self.forward = nvmath.fft.FFT(self.strain, stream=self.transform_stream)
        self.forward.plan(stream=self.transform_stream)

    def score(self, segment):
        with self.transform_stream:
            self.strain[...] = cp.asarray(segment)
        spectrum = self.forward.execute(stream=self.transform_stream)
        with self.score_stream:
            product = spectrum[None, :] * self.templates
            best = cp.abs(product).sum(axis=1).argmax()
            index = int(best)
        return index

    def close(self):
        self.transform_stream.synchronize()
        self.forward.free()


def segments(path, length):
    data = np.load(path, mmap_mode="r")
    for start in range(0, data.size - length, length // 2):
        yield data[start:start + length].astype(np.complex64)


def main():
    bank = FilterBank(np.load("templates.npy"))
    hits = [bank.score(seg) for seg in segments("strain.npy", 1 << 17)]
    bank.close()
    np.savetxt("hits.txt", hits, fmt="%d")


if __name__ == "__main__":
    main()
