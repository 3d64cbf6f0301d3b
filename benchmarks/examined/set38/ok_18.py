"""Page writer with chunked page-locked storage: chunks are never moved, read only after close()."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

mod = SourceModule("""
__global__ void delta(const int *in, int *out, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = i ? in[i] - in[i - 1] : in[0];
}
__global__ void zigzag(int *v, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        v[i] = (v[i] << 1) ^ (v[i] >> 31);
}
""")
delta, zigzag = mod.get_function("delta"), mod.get_function("zigzag")


class ChunkedSink:
    def __init__(self, chunk_elems):
        self.chunk_elems = chunk_elems
        self.chunks = []
        self.offset = chunk_elems

    def reserve(self, n):
        if self.offset + n > self.chunk_elems:
            self.chunks.append(drv.pagelocked_empty(max(n, self.chunk_elems), np.int32))
            self.offset = 0
        view = self.chunks[-1][self.offset:self.offset + n]
        self.offset += n
        return view


class Encoder:
    def __init__(self, n, lanes):
        self.n = n
        self.streams = [drv.Stream() for _ in range(lanes)]
        self.work = [drv.mem_alloc(4 * n) for _ in range(lanes)]
        self.launch = dict(block=(256, 1, 1), grid=(128, 1))

    def encode(self, lane, column, view):
        stream, work = self.streams[lane], self.work[lane]
        delta(column, work, np.int32(self.n), stream=stream, **self.launch)
        zigzag(work, np.int32(self.n), stream=stream, **self.launch)
        drv.memcpy_dtoh_async(view, work, stream)


class Writer:
    def __init__(self, encoder, sink):
        self.encoder, self.sink = encoder, sink
        self.pages = []

    def add(self, column):
        view = self.sink.reserve(self.encoder.n)
        self.encoder.encode(len(self.pages) % len(self.encoder.streams), column, view)
        self.pages.append(view)

    def close(self):
        done = drv.Event()
        done.record()
        done.synchronize()
        return self.pages


def main():
    n = 1 << 20
    rng = np.random.default_rng(9)
    columns = [np.cumsum(rng.integers(-5, 6, n)).astype(np.int32) for _ in range(10)]
    device = [drv.to_device(c) for c in columns]
    writer = Writer(Encoder(n, 3), ChunkedSink(3 * n))
    for col in device:
        writer.add(col)
    pages = writer.close()
    errors = 0
    for col, page in zip(columns, pages):
        d = np.diff(col, prepend=np.int32(0))
        errors += int(((d << 1) ^ (d >> 31) != page).sum())
    print(len(pages), errors)


if __name__ == "__main__":
    main()
