"""RMM backed allocator for CuPy, and a worker that spreads chunks over a few streams."""
from typing import Iterable, List, Optional

import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.device_buffer import DeviceBuffer


def rmm_cupy_allocator(nbytes: int) -> cp.cuda.MemoryPointer:
    """A CuPy allocator that makes use of RMM.

    >>> cp.cuda.set_allocator(rmm_cupy_allocator)
    """
    buf = DeviceBuffer(size=nbytes)
    dev_id = -1 if buf.ptr else cp.cuda.device.get_device_id()
    mem = cp.cuda.UnownedMemory(ptr=buf.ptr, size=buf.size, owner=buf, device_id=dev_id)
    return cp.cuda.memory.MemoryPointer(mem, 0)


def setup_worker(initial_pool_size: Optional[int] = None) -> None:
    rmm.reinitialize(pool_allocator=True, initial_pool_size=initial_pool_size)
    cp.cuda.set_allocator(rmm_cupy_allocator)


class ChunkStandardizer:
    """Column statistics of host chunks; every chunk is handled on one of the streams."""

    def __init__(self, num_columns: int, num_streams: int = 4):
        self.num_columns = num_columns
        self.streams: List[cp.cuda.Stream] = [cp.cuda.Stream(non_blocking=True) for _ in range(num_streams)]
        self.partials: List[cp.ndarray] = []

    def _upload(self, chunk: np.ndarray) -> cp.ndarray:
        return cp.asarray(chunk, dtype=cp.float32)

    def update(self, index: int, chunk: np.ndarray) -> None:
        with self.streams[index % len(self.streams)]:
            device_chunk = self._upload(chunk)
            finite = cp.where(cp.isfinite(device_chunk), device_chunk, 0.0)
            squares = finite * finite
            partial = cp.stack([finite.sum(axis=0), squares.sum(axis=0)])
            self.partials.append(partial)

    def finish(self, count: int):
        for stream in self.streams:
            stream.synchronize()
        total = cp.stack(self.partials).sum(axis=0)
        mean = total[0] / count
        std = cp.sqrt(total[1] / count - mean * mean)
        return cp.asnumpy(mean), cp.asnumpy(std)


def standardize(chunks: Iterable[np.ndarray], num_columns: int):
    setup_worker()
    worker = ChunkStandardizer(num_columns)
    count = 0
    for index, chunk in enumerate(chunks):
        worker.update(index, chunk)
        count += len(chunk)
    return worker.finish(count)
