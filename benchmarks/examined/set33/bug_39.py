import numpy as np
from numba import cuda

EMPTY = np.int64(-1)


@cuda.jit
def _insert(keys, slots, mask, inserted):
    i = cuda.grid(1)
    if i >= keys.size:
        return
    key = keys[i]
    pos = (key * 0x9E3779B1) & mask
    for _ in range(slots.size):
        old = cuda.atomic.cas(slots, pos, EMPTY, key)
        if old == EMPTY:
            cuda.atomic.add(inserted, 0, 1)
            return
        if old == key:
            return
        pos = (pos + 1) & mask


@cuda.jit
def _fill(slots, value):
    i = cuda.grid(1)
    if i < slots.size:
        slots[i] = value


class DeviceSet:
    """Open-addressing set of non-negative int64 keys."""

    THREADS = 256

    def __init__(self, capacity: int, stream=None):
        self.capacity = 1 << int(np.ceil(np.log2(capacity)))
        self.stream = stream if stream is not None else cuda.stream()
        self.slots = cuda.device_array(self.capacity, np.int64, stream=self.stream)
        self.d_count = cuda.device_array(1, np.int32, stream=self.stream)
        self.h_count = cuda.pinned_array(1, np.int32)
        self.h_count[0] = 0
        self.size = 0
        self._launch(_fill, self.capacity, self.slots, EMPTY)

    def _launch(self, kernel, n: int, *args) -> None:
        blocks = (n + self.THREADS - 1) // self.THREADS
        kernel[blocks, self.THREADS, self.stream](*args)

    def insert(self, keys) -> int:
        if self.size + keys.size > self.capacity * 3 // 4:
            raise MemoryError("set is too full")
        self._launch(_fill, 1, self.d_count, np.int32(0))
        self._launch(_insert, keys.size, keys, self.slots, self.capacity - 1, self.d_count)
        self.d_count.copy_to_host(self.h_count, stream=self.stream)
        added = int(self.h_count[0])
        self.size += added
        self.stream.synchronize()
        return added

    def __len__(self) -> int:
        return self.size


def distinct(batches, capacity: int = 1 << 20) -> int:
    table = DeviceSet(capacity)
    for batch in batches:
        keys = cuda.to_device(np.ascontiguousarray(batch, dtype=np.int64), stream=table.stream)
        table.insert(keys)
    return len(table)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    print(distinct(rng.integers(0, 50_000, 20_000) for _ in range(10)))
