import math

import numpy as np
from numba import cuda


@cuda.jit
def compress(src, dst, knee, ratio):
    i = cuda.grid(1)
    if i < src.size:
        value = src[i]
        level = abs(value)
        if level > knee:
            level = knee * math.exp(math.log(level / knee) / ratio)
        dst[i] = math.copysign(level, value)


class Compressor:
    """Processes ordinary host arrays in chunks, page-locking them for the duration."""

    def __init__(self, chunk, lanes=2):
        self.chunk = chunk
        self.streams = [cuda.stream() for _ in range(lanes)]
        self.inputs = [cuda.device_array(chunk, dtype=np.float32) for _ in range(lanes)]
        self.outputs = [cuda.device_array(chunk, dtype=np.float32) for _ in range(lanes)]

    def _enqueue(self, lane, source, target, knee, ratio):
        count = source.size
        stream = self.streams[lane]
        src, dst = self.inputs[lane][:count], self.outputs[lane][:count]
        src.copy_to_device(source, stream=stream)
        compress[(count + 255) // 256, 256, stream](src, dst, knee, ratio)
        dst.copy_to_host(target, stream=stream)

    def _drain(self):
        for stream in self.streams:
            stream.synchronize()

    def apply(self, signal, knee=0.5, ratio=4.0):
        source = np.array(signal, dtype=np.float32).reshape(-1)
        target = np.empty_like(source)
        if source.size == 0:
            return target
        with cuda.pinned(source, target):
            try:
                for number, start in enumerate(range(0, source.size, self.chunk)):
                    stop = min(start + self.chunk, source.size)
                    self._enqueue(number % len(self.streams), source[start:stop],
                                  target[start:stop], knee, ratio)
            finally:
                self._drain()
        return target

    def apply_until(self, signal, limit, knee=0.5, ratio=4.0, rounds=8):
        for done in range(rounds):
            if signal.size == 0 or float(np.abs(signal).max()) <= limit:
                return signal, done
            signal = self.apply(signal, knee, ratio)
        return signal, rounds


def reference(signal, knee=0.5, ratio=4.0):
    level = np.abs(signal).astype(np.float64)
    over = level > knee
    level[over] = knee * (level[over] / knee) ** (1 / ratio)
    return np.copysign(level, signal)


def main():
    rng = np.random.default_rng(0)
    compressor = Compressor(1 << 16)
    for length in (500_000, 17, 0, 1 << 16, 3 << 16):
        signal = rng.standard_normal(length).astype(np.float32)
        got = compressor.apply(signal)
        print(length, bool(np.allclose(got, reference(signal), atol=1e-5)))
    loud = 100 * rng.standard_normal(200_000).astype(np.float32)
    quiet, rounds = compressor.apply_until(loud, 0.6)
    print(float(np.abs(quiet).max()) <= 0.6, rounds)


if __name__ == "__main__":
    main()
