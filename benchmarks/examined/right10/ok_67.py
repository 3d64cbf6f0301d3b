"""Scratch from the stream-ordered allocator: allocated on one stream, freed on another after an event."""
import contextlib

import numpy as np
from cuda.bindings import runtime as rt


class CudaError(RuntimeError):
    pass


def ok(ret):
    if ret[0] != rt.cudaError_t.cudaSuccess:
        raise CudaError(ret[0])
    return ret[1] if len(ret) == 2 else ret[1:]


class Stream:
    def __init__(self):
        self.handle = ok(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))

    def after(self, other: "Stream"):
        ev = ok(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        ok(rt.cudaEventRecord(ev, other.handle))
        ok(rt.cudaStreamWaitEvent(self.handle, ev, 0))
        ok(rt.cudaEventDestroy(ev))

    def sync(self):
        ok(rt.cudaStreamSynchronize(self.handle))


@contextlib.contextmanager
def scratch(nbytes: int, born: Stream, dies: Stream):
    ptr = ok(rt.cudaMallocAsync(nbytes, born.handle))
    try:
        yield ptr
    finally:
        dies.after(born)
        ok(rt.cudaFreeAsync(ptr, dies.handle))


def shuffle(blocks: list[np.ndarray]) -> np.ndarray:
    up, down = Stream(), Stream()
    h2d = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
    d2d = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice
    d2h = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
    total = sum(b.nbytes for b in blocks)
    out = np.empty(total, np.uint8)
    dst = ok(rt.cudaMallocAsync(total, down.handle))
    offset = 0
    for b in blocks:
        with scratch(b.nbytes, up, down) as tmp:
            ok(rt.cudaMemcpyAsync(tmp, b.ctypes.data, b.nbytes, h2d, up.handle))
            down.after(up)
            ok(rt.cudaMemcpyAsync(int(dst) + offset, tmp, b.nbytes, d2d, down.handle))
        offset += b.nbytes
    ok(rt.cudaMemcpyAsync(out.ctypes.data, dst, total, d2h, down.handle))
    ok(rt.cudaFreeAsync(dst, down.handle))
    down.sync()
    return out


if __name__ == "__main__":
    parts = [np.full(1 << (10 + k), k, np.uint8) for k in range(8)]
    merged = shuffle(parts)
    print(merged.size, [int(v) for v in np.unique(merged)])
