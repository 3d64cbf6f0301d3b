import cupy as cp
import numpy as np
from numba import cuda


class StreamedArray:
    """Array interface that names the stream of its last write."""

    def __init__(self, array, stream):
        self.array, self.stream = array, stream

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.array.shape,
            "typestr": self.array.dtype.str,
            "data": (self.array.data.ptr, False),
            "version": 3,
            "strides": None,
            "stream": self.stream.ptr,
        }


class Producer:
    def __init__(self, n, seed=0):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.rng = cp.random.default_rng(seed)
            self.array = cp.empty(n, cp.float64)

    def fill(self):
        with self.stream:
            self.array[...] = self.rng.standard_normal(self.array.size)
        return StreamedArray(self.array, self.stream)

    def give_back(self, stream):
        self.stream.wait_event(stream.record())


@cuda.jit
def clip_sum(x, lo, hi, total):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(total, 0, min(max(x[i], lo), hi))


class Reducer:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.numba = cuda.external_stream(self.stream.ptr)
        with self.stream:
            self.total = cp.zeros(1, cp.float64)
        self.stream.synchronize()
        self.total_view = cuda.as_cuda_array(self.total)

    def add(self, exported):
        view = cuda.as_cuda_array(exported)
        clip_sum[(view.size + 255) // 256, 256, self.numba](view, -2.0, 2.0, self.total_view)
        return self.stream

    def value(self):
        host = self.total.get(stream=self.stream)
        self.stream.synchronize()
        return float(host[0])


def main(rounds=20, n=1 << 20):
    producer, reducer = Producer(n), Reducer()
    for _ in range(rounds):
        producer.give_back(reducer.add(producer.fill()))
    return reducer.value() / (rounds * n)


if __name__ == "__main__":
    print(main())
