"""Stream-carrying device buffers for partition shuffles, built on RMM."""
import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream


class StreamBuffer:
    """A DeviceBuffer together with the stream that its contents belong to."""

    def __init__(self, nbytes, stream):
        self.stream = stream
        self.nbytes = nbytes
        self.buf = rmm.DeviceBuffer(size=nbytes, stream=Stream(obj=stream))

    @classmethod
    def copy_of(cls, other, stream):
        out = cls.__new__(cls)
        out.stream = stream
        out.nbytes = other.nbytes
        out.buf = rmm.DeviceBuffer(
            ptr=other.buf.ptr, size=other.nbytes, stream=Stream(obj=stream))
        return out

    def view(self, dtype):
        mem = cp.cuda.UnownedMemory(self.buf.ptr, self.nbytes, self.buf)
        count = self.nbytes // np.dtype(dtype).itemsize
        return cp.ndarray((count,), dtype, memptr=cp.cuda.MemoryPointer(mem, 0))


class Shuffler:
    def __init__(self, rows):
        self.rows = rows
        self.hash_stream = cp.cuda.Stream(non_blocking=True)
        self.send_stream = cp.cuda.Stream(non_blocking=True)
        self.keys = StreamBuffer(rows * 8, self.hash_stream)

    def hash_partition(self, seed):
        with self.hash_stream:
            keys = self.keys.view(np.int64)
            keys[...] = cp.arange(self.rows, dtype=np.int64)
            keys *= 6364136223846793005
            keys ^= seed

    def snapshot(self):
        return StreamBuffer.copy_of(self.keys, self.send_stream)


def main():
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    shuffler = Shuffler(1 << 22)
    checks = []
    for seed in range(8):
        shuffler.hash_partition(seed)
        snap = shuffler.snapshot()
        with shuffler.send_stream:
            checks.append(int(cp.bitwise_xor.reduce(snap.view(np.int64))))
        shuffler.send_stream.synchronize()
        shuffler.hash_stream.synchronize()
    print(checks)


if __name__ == "__main__":
    main()
