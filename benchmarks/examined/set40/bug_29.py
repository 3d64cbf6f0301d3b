"""Chunked byte histogram over a device-resident source (RMM + CuPy)."""
import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream

count_bytes = cp.RawKernel(r"""
extern "C" __global__
void count_bytes(const unsigned char *data, int n, unsigned long long *hist)
{
    __shared__ unsigned int local[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[data[i]], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (local[i]) atomicAdd(&hist[i], (unsigned long long)local[i]);
}
""", "count_bytes")


class ReadResult:
    def __init__(self, nbytes):
        self._nbytes = nbytes

    def get(self):
        return self._nbytes


class DeviceBufferSource:
    """Serves reads from one big device allocation."""

    def __init__(self, data):
        self.data = data
        self.io = cp.cuda.Stream(non_blocking=True)
        self._rmm_io = Stream(self.io)

    @property
    def size(self):
        return self.data.nbytes

    def read_async(self, offset, size, dst):
        count = min(size, self.size - offset)
        dst.copy_from_device(self.data[offset:offset + count], self._rmm_io)
        return ReadResult(count)


class ByteStats:
    BLOCKS, THREADS = 128, 256

    def __init__(self, source, chunk):
        self.source = source
        self.chunk = chunk
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.buf = rmm.DeviceBuffer(size=chunk)
        self.view = cp.asarray(self.buf)
        self.hist = cp.zeros(256, dtype=cp.uint64)
        cp.cuda.Device().synchronize()

    def _consume(self, n):
        with self.compute:
            count_bytes((self.BLOCKS,), (self.THREADS,), (self.view, np.int32(n), self.hist))
        self.compute.synchronize()

    def run(self):
        offset = 0
        while offset < self.source.size:
            n = self.source.read_async(offset, self.chunk, self.buf).get()
            self._consume(n)
            offset += n
        return cp.asnumpy(self.hist)


def entropy(hist):
    p = hist[hist > 0] / hist.sum()
    return float(-(p * np.log2(p)).sum())


def main(nbytes=1 << 28, chunk=1 << 24):
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    data = cp.random.randint(0, 200, size=nbytes, dtype=cp.uint8)
    cp.cuda.Device().synchronize()
    stats = ByteStats(DeviceBufferSource(data), chunk)
    hist = stats.run()
    print("bytes", int(hist.sum()), "entropy", round(entropy(hist), 4))


if __name__ == "__main__":
    main()
