from collections import deque
from dataclasses import dataclass

import cupy as cp
import cupyx
import numpy as np


@dataclass
class Chunk:
    data: cp.ndarray
    released: cp.cuda.Event


class ChunkFeeder:
    def __init__(self, source, rows, depth=2):
        self.source, self.rows = source, rows
        self.copy = cp.cuda.Stream(non_blocking=True)
        self.spare = deque()
        for _ in range(depth):
            buf = cp.empty((rows, source.shape[1]), source.dtype)
            self.spare.append(Chunk(buf, cp.cuda.get_current_stream().record()))

    def __iter__(self):
        for start in range(0, self.source.shape[0], self.rows):
            chunk = self.spare.popleft()
            self.copy.wait_event(chunk.released)
            chunk.data.set(self.source[start:start + self.rows], stream=self.copy)
            yield chunk, self.copy.record()

    def give_back(self, chunk, stream):
        chunk.released = stream.record()
        self.spare.append(chunk)


class Moments:
    def __init__(self, columns):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.first = cp.zeros(columns)
            self.second = cp.zeros(columns)

    def consume(self, feeder):
        for chunk, uploaded in feeder:
            self.stream.wait_event(uploaded)
            with self.stream:
                self.first += chunk.data.sum(axis=0)
                self.second += cp.square(chunk.data).sum(axis=0)
            feeder.give_back(chunk, self.stream)

    def finish(self, n):
        with self.stream:
            mean = self.first / n
            std = cp.sqrt(self.second / n - mean * mean)
            pair = cp.asnumpy(cp.stack((mean, std)))
        self.stream.synchronize()
        return pair


def main(n=1 << 16, columns=256):
    source = cupyx.empty_pinned((n, columns), np.float64)
    source[...] = np.random.default_rng(1).normal(size=(n, columns))
    moments = Moments(columns)
    feeder = ChunkFeeder(source, 4096, 3)
    moments.consume(feeder)
    result = moments.finish(n)
    feeder.spare.clear()
    return result
