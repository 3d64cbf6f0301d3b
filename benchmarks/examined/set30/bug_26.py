"""Moves table chunks between the streams of a shuffle pipeline (RMM buffers)."""
from dataclasses import dataclass

import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream

D2D = cp.cuda.runtime.memcpyDeviceToDevice


class Lane:
    """A non-blocking stream in its CuPy and RMM forms."""

    def __init__(self):
        self.cupy = cp.cuda.Stream(non_blocking=True)
        self.rmm = Stream(self.cupy)


@dataclass
class Chunk:
    buffer: rmm.DeviceBuffer
    lane: Lane
    written: cp.cuda.Event

    def view(self, dtype=cp.float32):
        n = self.buffer.size
        mem = cp.cuda.UnownedMemory(self.buffer.ptr, n, self.buffer)
        return cp.ndarray(n // np.dtype(dtype).itemsize, dtype, cp.cuda.MemoryPointer(mem, 0))


def make_chunk(lane, count, value):
    buf = rmm.DeviceBuffer(size=count * 4, stream=lane.rmm)
    chunk = Chunk(buf, lane, cp.cuda.Event(disable_timing=True))
    with lane.cupy:
        chunk.view()[...] = value
    chunk.written.record(lane.cupy)
    return chunk


def copy_to_lane(chunk, lane):
    out = rmm.DeviceBuffer(size=chunk.buffer.size, stream=lane.rmm)
    lane.cupy.wait_event(chunk.written)
    cp.cuda.runtime.memcpyAsync(
        out.ptr, chunk.buffer.ptr, chunk.buffer.size, D2D, lane.cupy.ptr
    )
    moved = Chunk(out, lane, cp.cuda.Event(disable_timing=True))
    moved.written.record(lane.cupy)
    return moved


class Shuffler:
    def __init__(self):
        self.ingest = Lane()
        self.output = Lane()
        self.parts = []

    def insert(self, count, value):
        chunk = make_chunk(self.ingest, count, value)
        chunk = copy_to_lane(chunk, self.output)
        self.parts.append(chunk)

    def finish(self):
        with self.output.cupy:
            sums = [part.view().sum() for part in self.parts]
            total = cp.stack(sums)
        self.output.cupy.synchronize()
        return total.get(stream=self.output.cupy)


def main(rounds=16, count=1 << 24):
    mr = rmm.mr.CudaAsyncMemoryResource()
    rmm.mr.set_current_device_resource(mr)
    shuffler = Shuffler()
    for i in range(rounds):
        shuffler.insert(count, float(i))
    return shuffler.finish()


if __name__ == "__main__":
    print(main())
