"""Temporary arrays from RMM, each bound to the stream of its arena."""
import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream


class StreamArena:
    def __init__(self):
        self.cupy = cp.cuda.Stream(non_blocking=True)
        self.rmm = Stream(self.cupy)

    def empty(self, shape, dtype=np.float32):
        nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        buf = rmm.DeviceBuffer(size=nbytes, stream=self.rmm)
        mem = cp.cuda.UnownedMemory(buf.ptr, nbytes, buf)
        return cp.ndarray(shape, dtype, memptr=cp.cuda.MemoryPointer(mem, 0))

    def like(self, other):
        return self.empty(other.shape, other.dtype)

    def after(self, other):
        self.cupy.wait_event(other.cupy.record())

    def adopt(self, arr, owner):
        """Copy an array of another arena into this one."""
        self.after(owner)
        mine = self.like(arr)
        with self.cupy:
            cp.copyto(mine, arr)
        owner.after(self)
        return mine


def rotate(arena, src, k):
    dst = arena.like(src)
    with arena.cupy:
        cp.multiply(src, np.float32(np.cos(0.1 * k)), out=dst)
        cp.subtract(dst, np.float32(0.01), out=dst)
    return dst


def main(shape=(512, 512), rounds=40):
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 26)
    front, back = StreamArena(), StreamArena()
    acc = back.empty(shape)
    x = front.empty(shape)
    with back.cupy:
        acc.fill(0)
    with front.cupy:
        x.fill(1)
    for k in range(rounds):
        x = rotate(front, x, k)
        y = back.adopt(x, front)
        with back.cupy:
            acc += y
    with back.cupy:
        host = cp.asnumpy(acc)
    front.cupy.synchronize()
    return host.mean()


if __name__ == "__main__":
    print(main())
