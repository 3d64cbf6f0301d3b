"""Device-side hash table with conditional erase, in Numba."""
import numpy as np
from numba import cuda

EMPTY = -1


@cuda.jit
def insert_kernel(keys, scores, new_keys, new_scores):
    i = cuda.grid(1)
    if i >= new_keys.size:
        return
    key = new_keys[i]
    slot = key % keys.size
    for _ in range(keys.size):
        old = cuda.atomic.cas(keys, slot, EMPTY, key)
        if old == EMPTY or old == key:
            scores[slot] = new_scores[i]
            return
        slot = (slot + 1) % keys.size


@cuda.jit
def erase_if_kernel(keys, scores, threshold, count):
    i = cuda.grid(1)
    if i < keys.size and keys[i] != EMPTY and scores[i] < threshold:
        keys[i] = EMPTY
        cuda.atomic.add(count, 0, 1)


class HashTable:
    def __init__(self, capacity, stream):
        self.capacity = capacity
        self.stream = stream
        self.keys = cuda.to_device(np.full(capacity, EMPTY, np.int64), stream=stream)
        self.scores = cuda.device_array(capacity, np.float32, stream=stream)
        self.d_count = cuda.device_array(1, np.int64, stream=stream)
        self.h_count = cuda.pinned_array(1, np.int64)
        self.h_zero = cuda.pinned_array(1, np.int64)
        self.h_zero[0] = 0
        stream.synchronize()
        self.size = 0

    def _grid(self, n):
        return (n + 255) // 256, 256

    def insert(self, keys, scores):
        d_keys = cuda.to_device(keys, stream=self.stream)
        d_scores = cuda.to_device(scores, stream=self.stream)
        blocks, threads = self._grid(keys.size)
        insert_kernel[blocks, threads, self.stream](self.keys, self.scores, d_keys, d_scores)
        self.stream.synchronize()
        self.size += keys.size

    def erase_if(self, threshold):
        self.d_count.copy_to_device(self.h_zero, stream=self.stream)
        blocks, threads = self._grid(self.capacity)
        erase_if_kernel[blocks, threads, self.stream](
            self.keys, self.scores, threshold, self.d_count)
        self.d_count.copy_to_host(self.h_count, stream=self.stream)
        erased = int(self.h_count[0])
        self.size -= erased
        return erased


class EvictionPolicy:
    def __init__(self, table, max_load):
        self.table = table
        self.limit = int(table.capacity * max_load)
        self.threshold = np.float32(0.0)

    def maintain(self):
        total = 0
        while self.table.size > self.limit and self.threshold < 1.0:
            self.threshold = np.float32(self.threshold + 0.1)
            total += self.table.erase_if(self.threshold)
        return total


def main():
    rng = np.random.default_rng(1)
    table = HashTable(1 << 16, cuda.stream())
    policy = EvictionPolicy(table, 0.5)
    for step in range(6):
        keys = np.arange(step * 8000, (step + 1) * 8000, dtype=np.int64)
        table.insert(keys, rng.random(8000, dtype=np.float32))
        print(step, policy.maintain(), table.size)


if __name__ == "__main__":
    main()
