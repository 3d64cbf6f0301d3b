"""Chunked spectrum averaging: a host function tells the writer that a chunk has arrived."""
import queue
import threading
from typing import Dict

import cupy as cp
import cupyx
import numpy as np


class Chunk:
    def __init__(self, bins: int):
        self.host = cupyx.empty_pinned((bins,), dtype=np.float32)
        self.index = -1


class Writer(threading.Thread):
    """Takes arrived chunks, folds them into a running table and returns the memory."""

    def __init__(self, arrived: "queue.Queue", spare: "queue.Queue"):
        super().__init__(daemon=True)
        self.arrived = arrived
        self.spare = spare
        self.table: Dict[int, float] = {}

    def run(self) -> None:
        while True:
            chunk = self.arrived.get()
            if chunk is None:
                return
            self.table[chunk.index] = float(chunk.host.sum())
            self.spare.put(chunk)


class SpectrumAverager:
    def __init__(self, length: int, chunks: int):
        self.length = length
        self.bins = length // 2
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.arrived: "queue.Queue" = queue.Queue()
        self.spare: "queue.Queue" = queue.Queue()
        for _ in range(chunks):
            self.spare.put(Chunk(self.bins))
        self.writer = Writer(self.arrived, self.spare)
        self.writer.start()

    def _arrive(self, chunk: Chunk) -> None:
        self.arrived.put(chunk)

    def push(self, index: int, samples: np.ndarray) -> None:
        chunk = self.spare.get()
        chunk.index = index
        with self.stream:
            device = cp.asarray(samples, dtype=cp.float32)
            folded = cp.square(device.reshape(-1, self.length)).mean(axis=0)
            power = folded[:self.bins] + folded[self.bins:]
            power.get(stream=self.stream, out=chunk.host, blocking=False)
            self.stream.launch_host_func(self._arrive, chunk)

    def close(self) -> Dict[int, float]:
        self.stream.synchronize()
        self.arrived.put(None)
        self.writer.join()
        return self.writer.table


def recording(count: int, rows: int, length: int):
    rng = np.random.default_rng(9)
    for i in range(count):
        yield (1.0 + 0.1 * i) * rng.standard_normal(rows * length).astype(np.float32)


def main() -> None:
    averager = SpectrumAverager(length=1 << 16, chunks=4)
    for index, samples in enumerate(recording(20, rows=64, length=1 << 16)):
        averager.push(index, samples)
    table = averager.close()
    print([round(table[i], 1) for i in sorted(table)])


if __name__ == "__main__":
    main()
