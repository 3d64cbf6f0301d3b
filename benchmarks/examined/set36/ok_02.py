"""Telemetry uploader: a ring of page-locked blocks and one event for each lap of the ring."""
import cupy as cp
import numpy as np


class LapRing:
    def __init__(self, slots, shape):
        nbytes = int(np.prod(shape)) * 4
        self.host = []
        for _ in range(slots):
            mem = cp.cuda.alloc_pinned_memory(nbytes)
            self.host.append(np.frombuffer(mem, np.float32, nbytes // 4).reshape(shape))
        self.position = 0
        self.lap = None

    def claim(self):
        if self.position == 0 and self.lap is not None:
            self.lap.synchronize()
        return self.host[self.position]

    def issued(self, stream):
        self.position += 1
        if self.position == len(self.host):
            self.position = 0
            self.lap = stream.record(cp.cuda.Event(disable_timing=True))


class RunningSpectrum:
    def __init__(self, channels, samples, slots=6):
        self.ring = LapRing(slots, (channels, samples))
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.device = cp.empty((channels, samples), dtype=cp.float32)
            self.power = cp.zeros((channels, samples // 2 + 1), dtype=cp.float32)
            self.window = cp.hanning(samples).astype(cp.float32)
        self.count = 0

    def push(self, block):
        """block: any array-like of shape (channels, samples)."""
        host = self.ring.claim()
        np.copyto(host, block)
        self.device.set(host, stream=self.stream)
        self.ring.issued(self.stream)
        with self.stream:
            spectrum = cp.fft.rfft(self.device * self.window, axis=-1)
            self.power += (spectrum.real ** 2 + spectrum.imag ** 2).astype(cp.float32)
        self.count += 1

    def snapshot(self):
        with self.stream:
            mean = self.power / max(self.count, 1)
            result = mean.get(stream=self.stream, blocking=False)
        self.stream.synchronize()
        return result


def main(blocks=500, channels=32, samples=8192):
    spectrum = RunningSpectrum(channels, samples)
    rng = np.random.default_rng(3)
    for i in range(blocks):
        spectrum.push(rng.standard_normal((channels, samples), dtype=np.float32))
        if i % 100 == 99:
            print(i + 1, float(spectrum.snapshot().mean()))


if __name__ == "__main__":
    main()
