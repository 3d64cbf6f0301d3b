"""Broadcast join probe: RMM scratch buffers shared by two streams."""
from typing import List

import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream


class Scratch:
    """Scratch memory that is allocated and released on its home stream."""

    def __init__(self, home: cp.cuda.Stream, nbytes: int):
        self.home = home
        self.buffer = rmm.DeviceBuffer(size=nbytes, stream=Stream(home))
        self.ready = home.record()

    def view(self, dtype) -> cp.ndarray:
        return cp.asarray(self.buffer).view(dtype)

    def lend(self, stream: cp.cuda.Stream):
        stream.wait_event(self.ready)

    def give_back(self, stream: cp.cuda.Stream):
        self.home.wait_event(stream.record())
        self.buffer = None


class Probe:
    def __init__(self, keys: np.ndarray):
        self.home = cp.cuda.Stream(non_blocking=True)
        self.work = cp.cuda.Stream(non_blocking=True)
        with self.work:
            self.keys = cp.asarray(np.sort(keys))
            self.matches = cp.zeros((), dtype=cp.int64)

    def _fill(self, scratch: Scratch, chunk: np.ndarray):
        scratch.buffer.copy_from_host(chunk.view(np.uint8), stream=Stream(self.home))
        scratch.ready = self.home.record()

    def add(self, chunk: np.ndarray):
        scratch = Scratch(self.home, chunk.nbytes)
        self._fill(scratch, chunk)
        scratch.lend(self.work)
        with self.work:
            column = scratch.view(cp.int64)
            pos = cp.searchsorted(self.keys, column)
            pos = cp.minimum(pos, self.keys.size - 1)
            self.matches += (self.keys[pos] == column).sum()
            del column
        scratch.give_back(self.work)

    def finish(self) -> int:
        with self.work:
            return int(self.matches)


def make_chunks(count: int, rows: int) -> List[np.ndarray]:
    rng = np.random.default_rng(9)
    return [rng.integers(0, 1 << 20, rows, dtype=np.int64) for _ in range(count)]


def main():
    rmm.mr.set_current_device_resource(
        rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=1 << 30)
    )
    keys = np.arange(0, 1 << 20, 3, dtype=np.int64)
    chunks = make_chunks(16, 1 << 20)
    probe = Probe(keys)
    for chunk in chunks:
        probe.add(chunk)
    expected = sum(int((c % 3 == 0).sum()) for c in chunks)
    assert probe.finish() == expected


if __name__ == "__main__":
    main()
