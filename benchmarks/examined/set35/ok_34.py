"""Producer and consumer CuPy streams; chunk memory returns to the producer's arena."""
from typing import Iterator

import cupy as cp
import numpy as np


class SpectrumProducer:
    """Allocates each chunk inside its own stream context."""

    def __init__(self, size: int, seed: int = 0):
        self.size = size
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.phase = cp.random.RandomState(seed).uniform(0, 6.28, size).astype(cp.float32)
        cp.cuda.Device().synchronize()

    def chunk(self, index: int) -> cp.ndarray:
        with self.stream:
            t = cp.arange(self.size, dtype=cp.float32) * np.float32(1e-3)
            return cp.sin(t * np.float32(index + 1) + self.phase)


class BandAccumulator:
    def __init__(self, size: int, bands: int):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.power = cp.zeros((bands,), dtype=cp.float64)
        self.bands = bands
        self.width = size // bands
        cp.cuda.Device().synchronize()

    def add(self, chunk: cp.ndarray, ready: cp.cuda.Event) -> cp.cuda.Event:
        self.stream.wait_event(ready)
        with self.stream:
            bands = chunk[: self.bands * self.width].reshape(self.bands, self.width)
            self.power += (bands * bands).sum(axis=1, dtype=cp.float64)
            return self.stream.record()

    def result(self) -> np.ndarray:
        with self.stream:
            return cp.asnumpy(self.power)


class Pipeline:
    def __init__(self, size: int, bands: int):
        self.producer = SpectrumProducer(size)
        self.accumulator = BandAccumulator(size, bands)

    def _feed(self, index: int) -> None:
        chunk = self.producer.chunk(index)
        ready = self.producer.stream.record()
        used = self.accumulator.add(chunk, ready)
        self.producer.stream.wait_event(used)
        del chunk

    def run(self, count: int) -> np.ndarray:
        for index in range(count):
            self._feed(index)
        return self.accumulator.result()


def summarize(power: np.ndarray) -> Iterator[str]:
    total = power.sum()
    for i, p in enumerate(power[:4]):
        yield f"band {i}: {p / total:.4f}"


def main() -> None:
    pipeline = Pipeline(size=1 << 22, bands=64)
    for line in summarize(pipeline.run(64)):
        print(line)


if __name__ == "__main__":
    main()
