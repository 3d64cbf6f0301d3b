"""Ring of page-locked staging buffers for a radar ingest path."""
import cupy as cp
import cupyx
import numpy as np


class StagingRing:
    def __init__(self, depth, shape, dtype):
        self.host = [cupyx.empty_pinned(shape, dtype=dtype) for _ in range(depth)]
        self.sent = [cp.cuda.Event(block=True, disable_timing=True) for _ in range(depth)]
        self.turn = 0

    def claim(self):
        i = self.turn % len(self.host)
        if self.turn >= len(self.host):
            self.sent[i].synchronize()
        self.turn += 1
        return i

    def push(self, chunk, dst, stream):
        i = self.claim()
        np.copyto(self.host[i], chunk)
        dst.data.copy_from_host_async(self.host[i].ctypes.data, chunk.nbytes, stream)
        self.sent[i].record(stream)


class RangeDoppler:
    def __init__(self, pulses, samples, ring_depth=3):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.ring = StagingRing(ring_depth, (pulses, samples), np.complex64)
        self.cube = cp.empty((pulses, samples), dtype=cp.complex64)
        ref = np.exp(1j * np.pi * np.linspace(-1, 1, samples) ** 2 * 40).astype(np.complex64)
        with self.stream:
            self.ref = cp.conj(cp.fft.fft(cp.asarray(ref)))
            self.win = cp.hanning(pulses).astype(cp.float32)[:, None]
            self.acc = cp.zeros((pulses, samples), dtype=cp.float32)
        self.n = 0

    def process(self, chunk):
        self.ring.push(chunk, self.cube, self.stream)
        with self.stream:
            rc = cp.fft.ifft(cp.fft.fft(self.cube, axis=1) * self.ref, axis=1)
            rd = cp.fft.fft(rc * self.win, axis=0)
            self.acc += cp.abs(rd).astype(cp.float32)
        self.n += 1

    def peak(self):
        with self.stream:
            best = int(cp.argmax(self.acc))
            level = float(self.acc.ravel()[best]) / self.n
        return np.unravel_index(best, self.acc.shape), level


def pulses(n, shape):
    rng = np.random.default_rng(2)
    noise = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(np.complex64)
    tone = np.exp(2j * np.pi * 0.2 * np.arange(shape[0]))[:, None]
    for i in range(n):
        yield (np.roll(noise, i, axis=0) + 0.2 * tone).astype(np.complex64)


def main():
    shape = (256, 8192)
    rd = RangeDoppler(*shape)
    for chunk in pulses(32, shape):
        rd.process(chunk)
    print(rd.peak())


if __name__ == "__main__":
    main()
