"""Histograms with CuPy over an RMM asynchronous pool."""
import cupy as cp
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator


def setup_pool() -> None:
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    cp.cuda.set_allocator(rmm_cupy_allocator)


class Producer:
    def __init__(self, seed: int):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.seed = seed
        self.round = 0

    def make(self, n: int):
        self.round += 1
        with self.stream:
            base = cp.arange(n, dtype=cp.uint32) * cp.uint32(2654435761 + self.seed)
            values = (base >> cp.uint32(self.round % 16)) & cp.uint32(255)
            return values, self.stream.record()

    def release(self, after: cp.cuda.Event) -> None:
        self.stream.wait_event(after)


class Histogram:
    def __init__(self, bins: int):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.counts = cp.zeros(bins, dtype=cp.int64)

    def add(self, values: cp.ndarray, ready: cp.cuda.Event) -> cp.cuda.Event:
        self.stream.wait_event(ready)
        with self.stream:
            self.counts += cp.bincount(values.astype(cp.int64), minlength=self.counts.size)
            return self.stream.record()

    def result(self):
        with self.stream:
            return self.counts.get()


def main():
    setup_pool()
    producers = [Producer(s) for s in range(3)]
    hist = Histogram(256)
    for i in range(60):
        producer = producers[i % len(producers)]
        values, ready = producer.make(1 << 20)
        consumed = hist.add(values, ready)
        producer.release(consumed)
        del values
    print(hist.result()[:8])


if __name__ == "__main__":
    main()
