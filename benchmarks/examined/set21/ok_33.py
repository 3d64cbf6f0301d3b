"""Packed messages in device memory, shuffled between partitions of one process."""
import cupy as cp
import cupyx
import numpy as np


class Buffer:
    """Device memory with the stream it belongs to and the event of its latest write."""

    def __init__(self, nbytes, stream):
        self.stream = stream
        with stream:
            self.data = cp.empty(nbytes, dtype=cp.uint8)
        self.latest_write = stream.record()

    def write_access(self, fn):
        with self.stream:
            fn(self.data, self.stream)
        self.latest_write = self.stream.record()

    def is_latest_write_done(self):
        return self.latest_write.done

    def host_wait(self):
        self.latest_write.synchronize()


class StreamPool:
    def __init__(self, size=4):
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(size)]
        self.turn = 0

    def get(self):
        self.turn += 1
        return self.streams[self.turn % len(self.streams)]


class Packer:
    """Turns host rows into packed device buffers through one pinned staging area."""

    def __init__(self, pool, max_bytes):
        self.pool = pool
        self.staging = cupyx.empty_pinned(max_bytes, dtype=np.uint8)

    def pack(self, rows):
        raw = np.ascontiguousarray(rows).view(np.uint8).reshape(-1)
        src = self.staging[: raw.size]
        src[:] = raw
        buf = Buffer(raw.size, self.pool.get())
        buf.write_access(lambda data, stream: data.set(src, stream=stream))
        buf.host_wait()
        return buf


class Partition:
    """Receives messages and reduces them on a stream of its own."""

    def __init__(self, columns):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.columns = columns
        with self.stream:
            self.total = cp.zeros(columns, dtype=cp.float64)
        self.received = []

    def receive(self, buf):
        self.stream.wait_event(buf.latest_write)
        with self.stream:
            rows = buf.data.view(cp.float64).reshape(-1, self.columns)
            self.total += rows.sum(axis=0)
        self.received.append(buf)

    def finish(self):
        total = self.total.get(stream=self.stream)
        self.received.clear()
        return total


def scale(buf, factor):
    def fn(data, stream):
        values = data.view(cp.float64)
        cp.multiply(values, factor, out=values)
    buf.write_access(fn)


def shuffle(tables, num_partitions, columns):
    pool = StreamPool()
    packer = Packer(pool, max(t.nbytes for t in tables))
    partitions = [Partition(columns) for _ in range(num_partitions)]
    for i, table in enumerate(tables):
        for p, rows in enumerate(np.array_split(table, num_partitions)):
            if rows.size == 0:
                continue
            buf = packer.pack(rows)
            scale(buf, 1.0 / (i + 1))
            partitions[p].receive(buf)
    return [p.finish() for p in partitions]
