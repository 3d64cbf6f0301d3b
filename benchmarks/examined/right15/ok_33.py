"""Producer and consumer kernels on two streams around a two-entry device ring."""
import cupy as cp
import numpy as np

_MODULE = cp.RawModule(code=r"""
extern "C" __global__ void produce(float* out, int n, float t) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = sinf(0.001f * i + t);
}
extern "C" __global__ void consume(const float* in, float* acc, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) acc[i] = 0.9f * acc[i] + 0.1f * in[i];
}
""")


class Ring:
    def __init__(self, n, depth=2):
        self.n = n
        self.producer = cp.cuda.Stream(non_blocking=True)
        self.consumer = cp.cuda.Stream(non_blocking=True)
        with self.producer:
            self.entries = [cp.empty(n, dtype=cp.float32) for _ in range(depth)]
        with self.consumer:
            self.acc = cp.zeros(n, dtype=cp.float32)
        self.full = [cp.cuda.Event(disable_timing=True) for _ in range(depth)]
        self.empty = [cp.cuda.Event(disable_timing=True) for _ in range(depth)]
        self._produce = _MODULE.get_function("produce")
        self._consume = _MODULE.get_function("consume")
        self._tick = 0
        self._grid = ((n + 255) // 256,)

    def advance(self, steps):
        for _ in range(steps):
            k = self._tick % len(self.entries)
            entry = self.entries[k]
            self.producer.wait_event(self.empty[k])
            with self.producer:
                self._produce(self._grid, (256,),
                              (entry, np.int32(self.n), np.float32(self._tick * 0.01)))
            self.full[k].record(self.producer)
            self.consumer.wait_event(self.full[k])
            with self.consumer:
                self._consume(self._grid, (256,), (entry, self.acc, np.int32(self.n)))
            self.empty[k].record(self.consumer)
            self._tick += 1

    def read(self):
        with self.consumer:
            host = cp.asnumpy(self.acc)
        self.consumer.synchronize()
        return host

    def clear(self):
        with self.consumer:
            self.acc.fill(0)

    def close(self):
        self.producer.synchronize()
        self.consumer.synchronize()


def main():
    ring = Ring(1 << 16)
    try:
        ring.advance(7)
        first = ring.read()
        ring.clear()
        ring.advance(100)
        print(first.mean(), ring.read().mean())
    finally:
        ring.close()


if __name__ == "__main__":
    main()
