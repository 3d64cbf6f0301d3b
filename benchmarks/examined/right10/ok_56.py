"""Numba: producer and consumer kernels on two streams, joined by events per slot."""
import numpy as np
from numba import cuda


@cuda.jit
def produce(src, dst, gain):
    i = cuda.grid(1)
    if i < dst.size:
        dst[i] = src[i] * gain


@cuda.jit
def consume(src, acc):
    i = cuda.grid(1)
    if i < acc.size:
        acc[i] += src[i] * src[i]


class Slot:
    def __init__(self, n):
        self.host = cuda.pinned_array(n, dtype=np.float32)
        self.raw = cuda.device_array(n, dtype=np.float32)
        self.cooked = cuda.device_array(n, dtype=np.float32)
        self.ready = cuda.event(timing=False)
        self.drained = cuda.event(timing=False)


def run(batches, n, slots=3):
    first, second = cuda.stream(), cuda.stream()
    ring = [Slot(n) for _ in range(slots)]
    acc = cuda.to_device(np.zeros(n, np.float32))
    threads = 256
    blocks = (n + threads - 1) // threads
    for i, batch in enumerate(batches):
        s = ring[i % slots]
        if i >= slots:
            s.drained.synchronize()
        s.host[:] = batch
        s.raw.copy_to_device(s.host, stream=first)
        produce[blocks, threads, first](s.raw, s.cooked, np.float32(0.5))
        s.ready.record(first)
        s.ready.wait(second)
        consume[blocks, threads, second](s.cooked, acc)
        s.drained.record(second)
    out = cuda.pinned_array(n, dtype=np.float32)
    acc.copy_to_host(out, stream=second)
    second.synchronize()
    return np.array(out)


def main():
    n = 1 << 20
    rng = np.random.default_rng(1)
    got = run((rng.random(n, dtype=np.float32) for _ in range(20)), n)
    print(got.mean())


if __name__ == "__main__":
    main()
