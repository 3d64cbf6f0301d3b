"""Column pipeline: parse and aggregate threads with Numba kernels on per-thread streams."""
import math
import queue
import threading

import numpy as np
from numba import cuda

CHUNK = 1 << 18
GROUPS = 128


@cuda.jit
def decode_kernel(raw, column):
    i = cuda.grid(1)
    if i < raw.size:
        x = raw[i] / 1000.0
        acc = 0.0
        for k in range(40):
            acc += math.sin(x + k)
        column[i] = acc


@cuda.jit
def groupby_sum_kernel(column, keys, sums):
    i = cuda.grid(1)
    if i < column.size:
        cuda.atomic.add(sums, keys[i], column[i])


class Column:
    def __init__(self):
        self.raw = cuda.device_array(CHUNK, np.int32)
        self.keys = cuda.device_array(CHUNK, np.int32)
        self.values = cuda.device_array(CHUNK, np.float64)


class ColumnPool:
    def __init__(self, depth):
        self._free = queue.Queue()
        for _ in range(depth):
            self._free.put(Column())

    def acquire(self):
        return self._free.get()

    def release(self, column):
        self._free.put(column)


class Parser(threading.Thread):
    def __init__(self, chunks, pool, outbox):
        super().__init__()
        self.chunks = chunks
        self.pool = pool
        self.outbox = outbox

    def run(self):
        stream = cuda.per_thread_default_stream()
        for raw, keys in self.chunks:
            col = self.pool.acquire()
            col.raw.copy_to_device(raw, stream=stream)
            col.keys.copy_to_device(keys, stream=stream)
            decode_kernel[CHUNK // 256, 256, stream](col.raw, col.values)
            self.outbox.put(col)
        self.outbox.put(None)


class Aggregator(threading.Thread):
    def __init__(self, pool, inbox):
        super().__init__()
        self.pool = pool
        self.inbox = inbox
        self.sums = cuda.to_device(np.zeros(GROUPS))
        self.result = None

    def run(self):
        stream = cuda.per_thread_default_stream()
        while True:
            col = self.inbox.get()
            if col is None:
                break
            groupby_sum_kernel[CHUNK // 256, 256, stream](col.values, col.keys, self.sums)
            stream.synchronize()
            self.pool.release(col)
        self.result = self.sums.copy_to_host(stream=stream)
        stream.synchronize()


def aggregate(chunks):
    pool, hand_over = ColumnPool(4), queue.Queue()
    aggregator = Aggregator(pool, hand_over)
    parser = Parser(chunks, pool, hand_over)
    cuda.synchronize()
    for t in (parser, aggregator):
        t.start()
    for t in (parser, aggregator):
        t.join()
    return aggregator.result


def main():
    rng = np.random.default_rng(0)
    chunks = [(rng.integers(0, 1 << 20, CHUNK, dtype=np.int32),
               rng.integers(0, GROUPS, CHUNK, dtype=np.int32)) for _ in range(12)]
    print(aggregate(chunks)[:5])


if __name__ == "__main__":
    main()
