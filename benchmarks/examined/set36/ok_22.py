"""Sensor upload in CuPy; page-locked slots go back to the pool from a host function in the stream."""
import queue

import cupy as cp
import cupyx
import numpy as np


class PinnedPool:
    def __init__(self, count, samples):
        self.buffers = [cupyx.empty_pinned((samples,), dtype=np.float32) for _ in range(count)]
        self._ready: "queue.SimpleQueue[int]" = queue.SimpleQueue()
        for i in range(count):
            self._ready.put(i)

    def take(self):
        index = self._ready.get()
        return index, self.buffers[index]

    def give_back(self, index):
        self._ready.put(index)


class Spectrometer:
    def __init__(self, samples=1 << 20, slots=4):
        self.samples = samples
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.pool = PinnedPool(slots, samples)
        self.device_block = cp.zeros(samples, dtype=cp.float32)
        self.window = cp.hanning(samples).astype(cp.float32)
        self.accumulated = cp.zeros(samples // 2 + 1, dtype=cp.float32)
        self.blocks = 0
        cp.cuda.Stream.null.synchronize()

    def push(self, fill):
        """`fill` writes one block of samples into the array that it is given."""
        index, staging = self.pool.take()
        fill(staging)
        self.device_block.set(staging, stream=self.stream)
        self.stream.launch_host_func(self.pool.give_back, index)
        with self.stream:
            spectrum = cp.fft.rfft(self.device_block * self.window)
            self.accumulated += cp.abs(spectrum) ** 2
        self.blocks += 1

    def average(self):
        host = cupyx.empty_pinned(self.accumulated.shape, dtype=np.float32)
        with self.stream:
            mean = self.accumulated / max(self.blocks, 1)
            mean.get(out=host, stream=self.stream, blocking=False)
        self.stream.synchronize()
        return np.array(host)


class Acquisition:
    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.phase = 0.0

    def __call__(self, out):
        n = out.shape[0]
        t = self.phase + np.arange(n, dtype=np.float32)
        np.sin(t * 0.01, out=out)
        out += self.rng.normal(scale=0.1, size=n).astype(np.float32)
        self.phase += n


def main():
    spectrometer = Spectrometer()
    acquire = Acquisition()
    for _ in range(64):
        spectrometer.push(acquire)
    spectrum = spectrometer.average()
    print(int(spectrum.argmax()), float(spectrum.max()))


if __name__ == "__main__":
    main()
