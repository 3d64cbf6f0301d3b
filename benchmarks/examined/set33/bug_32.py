from collections import OrderedDict

import cupy as cp
import cupyx
import numpy as np
import rmm
from cupy.cuda import runtime
from rmm.pylibrmm.stream import Stream as RmmStream


class Chunk:
    def __init__(self, nbytes: int, stream: cp.cuda.Stream):
        self.nbytes = nbytes
        self.buffer = rmm.DeviceBuffer(size=nbytes, stream=RmmStream(stream))

    def view(self) -> cp.ndarray:
        mem = cp.cuda.UnownedMemory(self.buffer.ptr, self.nbytes, self.buffer)
        return cp.ndarray((self.nbytes,), cp.uint8, cp.cuda.MemoryPointer(mem, 0))


class HostChunk:
    def __init__(self, nbytes: int):
        self.array = cupyx.empty_pinned((nbytes,), dtype=np.uint8)
        self.ready = cp.cuda.Event(disable_timing=True)

    def wait(self) -> np.ndarray:
        self.ready.synchronize()
        return self.array


class SpillManager:
    """Keeps the newest chunks on the device, the rest in pinned host memory."""

    def __init__(self, producer: cp.cuda.Stream, limit_bytes: int):
        self.producer = producer
        self.copy_stream = cp.cuda.Stream(non_blocking=True)
        self.limit = limit_bytes
        self.used = 0
        self.device: "OrderedDict[str, Chunk]" = OrderedDict()
        self.host: dict = {}

    def create(self, key: str, nbytes: int, fill) -> None:
        while self.used + nbytes > self.limit and self.device:
            self.spill(next(iter(self.device)))
        chunk = Chunk(nbytes, self.producer)
        with self.producer:
            fill(chunk.view())
        self.device[key] = chunk
        self.used += nbytes

    def spill(self, key: str) -> None:
        chunk = self.device.pop(key)
        target = HostChunk(chunk.nbytes)
        self.copy_stream.wait_event(self.producer.record())
        runtime.memcpyAsync(
            target.array.ctypes.data,
            chunk.buffer.ptr,
            chunk.nbytes,
            runtime.memcpyDeviceToHost,
            self.copy_stream.ptr,
        )
        target.ready.record(self.copy_stream)
        self.host[key] = target
        self.used -= chunk.nbytes
        del chunk

    def fetch(self, key: str) -> np.ndarray:
        if key in self.device:
            self.spill(key)
        return self.host[key].wait()


def main():
    rmm.mr.set_current_device_resource(rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), 1 << 30))
    producer = cp.cuda.Stream(non_blocking=True)
    manager = SpillManager(producer, limit_bytes=256 << 20)
    for i in range(32):
        manager.create(f"part-{i}", 64 << 20, lambda view, i=i: view.fill(i))
    print([int(manager.fetch(f"part-{i}")[0]) for i in range(32)])


if __name__ == "__main__":
    main()
