"""Running power spectrum of a long recording: uploads on a stream, transforms on the null stream."""
import cupy as cp
import numpy as np


def pinned_array(shape, dtype):
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    mem = cp.cuda.alloc_pinned_memory(count * dtype.itemsize)
    return np.frombuffer(mem, dtype, count).reshape(shape)


class SpectrumAccumulator:
    """One device block is refilled for every chunk; two staging blocks feed it."""

    def __init__(self, frames, window):
        self.frames = frames
        self.size = window.shape[0]
        shape = (frames, self.size)
        self.upload = cp.cuda.Stream(non_blocking=False)
        with cp.cuda.Stream.null:
            self.window = cp.asarray(window.astype(np.float32))
            self.block = cp.zeros(shape, dtype=cp.float32)
            self.power = cp.zeros(self.size // 2 + 1, dtype=cp.float64)
        self.staging = [pinned_array(shape, np.float32) for _ in range(2)]
        self.sent = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        self.turn = 0
        self.count = 0

    def _send(self, chunk):
        slot = self.turn
        self.turn ^= 1
        self.sent[slot].synchronize()
        host = self.staging[slot]
        np.copyto(host, chunk.reshape(host.shape))
        self.block.set(host, stream=self.upload)
        self.sent[slot].record(self.upload)

    def _transform(self):
        with cp.cuda.Stream.null:
            spectrum = cp.fft.rfft(self.block * self.window, axis=1)
            self.power += (spectrum.real**2 + spectrum.imag**2).sum(axis=0)

    def add(self, chunk):
        """chunk: frames * size float32 samples."""
        self._send(chunk)
        self._transform()
        self.count += self.frames

    def result(self):
        with cp.cuda.Stream.null:
            return cp.asnumpy(self.power) / max(self.count, 1)


def analyse(recording, frames=512, size=4096):
    acc = SpectrumAccumulator(frames, np.hanning(size))
    step = frames * size
    usable = recording.shape[0] // step * step
    for start in range(0, usable, step):
        acc.add(recording[start : start + step])
    return acc.result()


def main():
    rng = np.random.default_rng(1)
    n = 512 * 4096 * 16
    t = np.arange(n, dtype=np.float32)
    signal = np.sin(t * 0.25) + rng.standard_normal(n, dtype=np.float32)
    power = analyse(signal.astype(np.float32))
    print(int(power.argmax()), float(power.max()))


if __name__ == "__main__":
    main()
