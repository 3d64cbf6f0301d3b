"""Shuffle write path: partitions are kept on the device and moved to host under memory pressure."""
import itertools
import threading

import cupy as cp
import cupyx
import numpy as np


class SpillableBuffer:
    _ids = itertools.count()

    def __init__(self, array):
        self.id = next(self._ids)
        self.device = array
        self.host = None

    @property
    def nbytes(self):
        return self.device.nbytes if self.device is not None else 0


class DeviceStore:
    def __init__(self, limit, host_bytes):
        self.limit = limit
        self.buffers = {}
        self.spill_stream = cp.cuda.Stream(non_blocking=True)
        self.arena = cupyx.empty_pinned(host_bytes, dtype=np.uint8)
        self.arena_used = 0
        self.lock = threading.Lock()

    def resident(self):
        return sum(b.nbytes for b in self.buffers.values())

    def add(self, array):
        buf = SpillableBuffer(array)
        with self.lock:
            self.buffers[buf.id] = buf
        return buf

    def make_room(self, nbytes):
        with self.lock:
            for buf in list(self.buffers.values()):
                if self.resident() + nbytes <= self.limit:
                    return
                if buf.device is not None:
                    self._spill(buf)

    def _spill(self, buf):
        start, n = self.arena_used, buf.device.nbytes
        host = self.arena[start:start + n].view(buf.device.dtype).reshape(buf.device.shape)
        self.arena_used += n
        buf.device.get(stream=self.spill_stream, out=host, blocking=False)
        self.spill_stream.synchronize()
        buf.host = host
        buf.device = None

    def fetch(self, buf, stream):
        if buf.device is not None:
            return buf.device
        with stream:
            out = cp.empty(buf.host.shape, dtype=buf.host.dtype)
            out.set(buf.host, stream=stream)
        stream.synchronize()
        return out


class PartitionTask:
    def __init__(self, store, n_parts):
        self.store = store
        self.n_parts = n_parts
        self.stream = cp.cuda.Stream(non_blocking=True)

    def compress(self, block):
        out = cp.empty(block.shape, dtype=cp.int16)
        scaled = cp.rint(block * 128.0)
        cp.clip(scaled, -32768, 32767, out=scaled)
        out[...] = scaled
        return out

    def run(self, rows, width, seed):
        handles = []
        with self.stream:
            table = cp.random.RandomState(seed).standard_normal((rows, width), dtype=cp.float32)
            for block in cp.array_split(table, self.n_parts):
                self.store.make_room(block.size * 2)
                handles.append(self.store.add(self.compress(block)))
        return handles


def main():
    store = DeviceStore(limit=96 << 20, host_bytes=256 << 20)
    tasks = [PartitionTask(store, 8) for _ in range(3)]
    handles = []
    for i in range(6):
        handles += tasks[i % 3].run(1 << 18, 64, seed=i)
    for t in tasks:
        t.stream.synchronize()
    reader = cp.cuda.Stream(non_blocking=True)
    acc = 0.0
    for h in handles:
        data = store.fetch(h, reader)
        with reader:
            acc += float(cp.abs(data.astype(cp.float32)).mean())
    print(len(handles), sum(h.host is not None for h in handles), acc / len(handles))


if __name__ == "__main__":
    main()
