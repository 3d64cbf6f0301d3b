"""Device frames with spilling to host memory, one worker per partition."""
import weakref
from typing import List, Optional

import cupy as cp
import cupyx
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator


class SpillableBuffer:
    def __init__(self, array: cp.ndarray, manager: "SpillManager"):
        self._device: Optional[cp.ndarray] = array
        self._host: Optional[np.ndarray] = None
        self._manager = manager
        self.exposed = False
        manager.register(self)

    @property
    def nbytes(self) -> int:
        return (self._device if self._device is not None else self._host).nbytes

    @property
    def is_spilled(self) -> bool:
        return self._device is None

    def get(self) -> cp.ndarray:
        if self._device is None:
            self.unspill()
        return self._device

    def spill(self, stream: cp.cuda.Stream):
        host = cupyx.empty_pinned(self._device.shape, dtype=self._device.dtype)
        self._device.get(stream=stream, out=host)
        self._host = host
        self._device = None

    def unspill(self):
        self._device = cp.asarray(self._host)
        cp.cuda.get_current_stream().synchronize()
        self._host = None


class SpillManager:
    def __init__(self, limit: int):
        self.limit = limit
        self.stream = cp.cuda.Stream(non_blocking=True)
        self._buffers: List[weakref.ref] = []

    def register(self, buf: SpillableBuffer):
        self._buffers.append(weakref.ref(buf))
        self.enforce_limit(keep=buf)

    def device_bytes(self) -> int:
        live = (ref() for ref in self._buffers)
        return sum(b.nbytes for b in live if b is not None and not b.is_spilled)

    def enforce_limit(self, keep: SpillableBuffer):
        for ref in list(self._buffers):
            if self.device_bytes() <= self.limit:
                return
            buf = ref()
            if buf is None or buf is keep or buf.is_spilled:
                continue
            buf.spill(self.stream)


class PartitionWorker:
    def __init__(self, manager: SpillManager):
        self.manager = manager
        self.stream = cp.cuda.Stream(non_blocking=True)

    def produce(self, rows: int, seed: int) -> SpillableBuffer:
        with self.stream:
            base = cp.arange(rows, dtype=cp.float64) + seed
            for _ in range(20):
                base = cp.sqrt(base * base + 1.0)
            return SpillableBuffer(base, self.manager)

    def total(self, buf: SpillableBuffer) -> float:
        with self.stream:
            return float(buf.get().sum())


def main(partitions: int = 8, rows: int = 1 << 24):
    rmm.mr.set_current_device_resource(
        rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=4 << 30)
    )
    cp.cuda.set_allocator(rmm_cupy_allocator)
    manager = SpillManager(limit=2 * rows * 8)
    worker = PartitionWorker(manager)
    frames = [worker.produce(rows, i) for i in range(partitions)]
    print([worker.total(f) for f in frames])


if __name__ == "__main__":
    main()
