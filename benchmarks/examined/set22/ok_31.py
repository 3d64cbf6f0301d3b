"""Open-addressing set with a device counter and a page-locked word for the size."""
import numpy as np
from numba import cuda, int64

EMPTY = -1


@cuda.jit
def insert_kernel(slots, keys, counter):
    i = cuda.grid(1)
    if i >= keys.size:
        return
    key = keys[i]
    pos = (key * int64(2654435761)) % slots.size
    while True:
        old = cuda.atomic.compare_and_swap(slots[pos:], EMPTY, key)
        if old == EMPTY:
            cuda.atomic.add(counter, 0, 1)
            return
        if old == key:
            return
        pos = (pos + 1) % slots.size


@cuda.jit
def compact_kernel(slots, out, counter):
    i = cuda.grid(1)
    if i < slots.size and slots[i] != EMPTY:
        out[cuda.atomic.add(counter, 0, 1)] = slots[i]


class StaticSet:
    def __init__(self, capacity, stream):
        self.stream = stream
        self.zero = cuda.pinned_array(1, np.int64)
        self.zero[0] = 0
        self.size_host = cuda.pinned_array(1, np.int64)
        self.slots = cuda.to_device(np.full(capacity, EMPTY, np.int64), stream=stream)
        self.counter = cuda.device_array(1, np.int64, stream=stream)
        self.total = 0
        stream.synchronize()

    def _read_counter(self):
        self.counter.copy_to_host(self.size_host, stream=self.stream)
        self.stream.synchronize()
        return int(self.size_host[0])

    def insert(self, keys):
        blocks = (keys.size + 255) // 256
        self.counter.copy_to_device(self.zero, stream=self.stream)
        insert_kernel[blocks, 256, self.stream](self.slots, keys, self.counter)
        added = self._read_counter()
        self.total += added
        return added

    def retrieve_all(self):
        out = cuda.device_array(self.total, np.int64, stream=self.stream)
        self.counter.copy_to_device(self.zero, stream=self.stream)
        blocks = (self.slots.size + 255) // 256
        compact_kernel[blocks, 256, self.stream](self.slots, out, self.counter)
        assert self._read_counter() == self.total
        host = out.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        return host


def main():
    stream = cuda.stream()
    s = StaticSet(1 << 20, stream)
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(4):
        batch = rng.integers(0, 1 << 30, 50000)
        seen.update(batch.tolist())
        s.insert(cuda.to_device(batch, stream=stream))
    assert set(s.retrieve_all().tolist()) == seen


if __name__ == "__main__":
    main()
