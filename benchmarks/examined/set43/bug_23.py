"""Upload a long table to the device chunk by chunk and reduce it (PyCUDA)."""
import sys

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

CHUNK = 1 << 20

SRC = SourceModule(r"""
__global__ void scale_shift(float *dst, const float *src, float a, float b, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = a * src[i] + b;
}

__global__ void partial_sum(const float *x, float *out, int n)
{
    __shared__ float s[256];
    int t = threadIdx.x;
    float acc = 0.f;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x)
        acc += x[i];
    s[t] = acc;
    __syncthreads();
    for (int k = 128; k > 0; k >>= 1) {
        if (t < k) s[t] += s[t + k];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = s[0];
}
""")

scale_shift = SRC.get_function("scale_shift")
partial_sum = SRC.get_function("partial_sum")


class Stager:
    """Page-locked window through which every chunk goes to the device."""

    def __init__(self, items, dtype=np.float32):
        self.window = drv.pagelocked_empty(items, dtype)
        self.stream = drv.Stream()
        self.sent = 0

    def send(self, dst, offset, chunk):
        n = chunk.size
        self.window[:n] = chunk
        drv.memcpy_htod_async(int(dst) + offset, self.window[:n], self.stream)
        self.sent += n * chunk.itemsize

    def finish(self):
        self.stream.synchronize()


class Column:
    def __init__(self, rows):
        self.rows = rows
        self.mem = drv.mem_alloc(rows * 4)
        self.scaled = drv.mem_alloc(rows * 4)

    def fill(self, stager, reader):
        pos = 0
        for chunk in reader:
            stager.send(self.mem, pos * 4, chunk)
            pos += chunk.size
        stager.finish()
        return pos

    def transform(self, a, b, stream):
        n = np.int32(self.rows)
        scale_shift(self.scaled, self.mem, np.float32(a), np.float32(b), n,
                    block=(256, 1, 1), grid=((self.rows + 255) // 256, 1), stream=stream)

    def total(self, stream):
        blocks = 64
        out = drv.mem_alloc(blocks * 4)
        partial_sum(self.scaled, out, np.int32(self.rows),
                    block=(256, 1, 1), grid=(blocks, 1), stream=stream)
        host = np.empty(blocks, np.float32)
        stream.synchronize()
        drv.memcpy_dtoh(host, out)
        return float(host.sum())


def read_chunks(rows, seed):
    rng = np.random.default_rng(seed)
    left = rows
    while left > 0:
        n = min(CHUNK, left)
        yield rng.random(n, dtype=np.float32)
        left -= n


def main(argv):
    rows = int(argv[1]) if len(argv) > 1 else 9 * CHUNK + 777
    stager = Stager(CHUNK)
    col = Column(rows)
    got = col.fill(stager, read_chunks(rows, 11))
    assert got == rows
    col.transform(2.0, -1.0, stager.stream)
    print("rows", rows, "sum", col.total(stager.stream), "bytes", stager.sent)


if __name__ == "__main__":
    main(sys.argv)
