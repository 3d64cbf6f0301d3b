import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream


class Parcel:
    """A raw RMM buffer with the stream that owns it and a ready event."""

    def __init__(self, n, dtype, stream):
        self.stream = stream
        self.buffer = rmm.DeviceBuffer(size=n * np.dtype(dtype).itemsize, stream=Stream(obj=stream))
        memory = cp.cuda.UnownedMemory(self.buffer.ptr, self.buffer.size, self.buffer)
        self.array = cp.ndarray(n, dtype, cp.cuda.MemoryPointer(memory, 0))
        self.ready = cp.cuda.Event(disable_timing=True)

    def seal(self):
        self.ready.record(self.stream)
        return self

    def borrow(self, stream):
        stream.wait_event(self.ready)
        return self.array

    def give_back(self, stream):
        done = cp.cuda.Event(disable_timing=True)
        done.record(stream)
        self.stream.wait_event(done)
        self.array = None
        self.buffer = None


def produce(stream, n, seed):
    parcel = Parcel(n, cp.float32, stream)
    with stream:
        x = cp.arange(n, dtype=cp.float32)
        parcel.array[...] = cp.sin(x * (seed + 1))
    return parcel.seal()


def main():
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 28)
    producers = [cp.cuda.Stream(non_blocking=True) for _ in range(3)]
    consumer = cp.cuda.Stream(non_blocking=True)
    n = 1 << 20
    with consumer:
        total = cp.zeros(n, cp.float32)
    for k in range(30):
        parcel = produce(producers[k % 3], n, k)
        array = parcel.borrow(consumer)
        with consumer:
            total += array
        del array
        parcel.give_back(consumer)
    with consumer:
        print(float(cp.abs(total).max()))


if __name__ == "__main__":
    main()
