"""NonZero operator: count, then scatter the coordinates."""
import numpy as np
from numba import cuda


@cuda.jit
def count_nonzero(x, total):
    i = cuda.grid(1)
    if i < x.size and x[i] != 0:
        cuda.atomic.add(total, 0, 1)


@cuda.jit
def scatter_nonzero(x, cursor, out):
    i = cuda.grid(1)
    if i < x.size and x[i] != 0:
        pos = cuda.atomic.add(cursor, 0, 1)
        if pos < out.size:
            out[pos] = i


class OpKernelContext:
    def __init__(self, stream):
        self.stream = stream

    def output(self, count):
        return cuda.device_array(count, dtype=np.int64, stream=self.stream)


class NonZero:
    BLOCK = 256

    def __init__(self):
        self._zero = cuda.pinned_array(1, dtype=np.int32)
        self._zero[0] = 0
        self._count_host = cuda.pinned_array(1, dtype=np.int32)
        self._count_host[0] = 0

    def compute_internal(self, ctx, x):
        stream = ctx.stream
        grid = (x.size + self.BLOCK - 1) // self.BLOCK
        total = cuda.to_device(self._zero, stream=stream)
        count_nonzero[grid, self.BLOCK, stream](x, total)

        total.copy_to_host(self._count_host, stream=stream)
        nonzero_count = int(self._count_host[0])

        out = ctx.output(max(nonzero_count, 1))
        cursor = cuda.to_device(self._zero, stream=stream)
        scatter_nonzero[grid, self.BLOCK, stream](x, cursor, out)
        return out, nonzero_count


class Session:
    def __init__(self):
        self.stream = cuda.stream()
        self.op = NonZero()

    def run(self, host_x):
        x = cuda.to_device(host_x, stream=self.stream)
        out, count = self.op.compute_internal(OpKernelContext(self.stream), x)
        result = out.copy_to_host(stream=self.stream)
        self.stream.synchronize()
        return np.sort(result[:count])


def main():
    rng = np.random.default_rng(0)
    session = Session()
    for _ in range(10):
        x = (rng.random(1 << 24) > 0.7).astype(np.float32)
        assert np.array_equal(session.run(x), np.flatnonzero(x))


if __name__ == "__main__":
    main()
