"""Sliding-window statistics with Numba on a stream per channel."""
from typing import List, Tuple

import numpy as np
from numba import cuda, float32


@cuda.jit
def window_sums(x, sums, squares, window):
    i = cuda.grid(1)
    if i < sums.size:
        total = float32(0.0)
        sq = float32(0.0)
        for k in range(window):
            v = x[i + k]
            total += v
            sq += v * v
        sums[i] = total
        squares[i] = sq


@cuda.jit
def finish(sums, squares, mean, std, window):
    i = cuda.grid(1)
    if i < mean.size:
        m = sums[i] / window
        mean[i] = m
        std[i] = max(squares[i] / window - m * m, 0.0) ** 0.5


class Channel:
    def __init__(self, length: int, window: int):
        self.window = window
        self.count = length - window + 1
        self.stream = cuda.stream()
        self.host = cuda.pinned_array(length, dtype=np.float32)
        self.mean = cuda.pinned_array(self.count, dtype=np.float32)
        self.std = cuda.pinned_array(self.count, dtype=np.float32)
        self.samples = cuda.device_array(length, dtype=np.float32, stream=self.stream)
        self.partial = [
            cuda.device_array(self.count, dtype=np.float32, stream=self.stream) for _ in range(4)
        ]

    def process(self, samples: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        threads = 256
        blocks = (self.count + threads - 1) // threads
        sums, squares, mean, std = self.partial
        with self.stream.auto_synchronize() as stream:
            self.host[:] = samples
            self.samples.copy_to_device(self.host, stream=stream)
            window_sums[blocks, threads, stream](self.samples, sums, squares, self.window)
            finish[blocks, threads, stream](sums, squares, mean, std, self.window)
            mean.copy_to_host(self.mean, stream=stream)
            std.copy_to_host(self.std, stream=stream)
        return self.mean, self.std


class Monitor:
    def __init__(self, channels: int, length: int, window: int, limit: float = 4.0):
        self.channels = [Channel(length, window) for _ in range(channels)]
        self.limit = limit
        self.window = window

    def scan(self, data: np.ndarray) -> List[int]:
        alarms = []
        for channel, samples in zip(self.channels, data):
            mean, std = channel.process(samples)
            tail = samples[self.window - 1:]
            z = np.abs(tail - mean) / np.maximum(std, 1e-6)
            alarms.append(int((z > self.limit).sum()))
        return alarms


def main() -> None:
    rng = np.random.default_rng(11)
    monitor = Monitor(channels=8, length=1 << 20, window=64)
    for _ in range(5):
        data = rng.standard_normal((8, 1 << 20)).astype(np.float32)
        print(monitor.scan(data))


if __name__ == "__main__":
    main()
