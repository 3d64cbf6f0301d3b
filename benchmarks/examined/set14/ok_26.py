import numpy as np
import rmm
from numba import cuda
from rmm.pylibrmm.stream import Stream


class ChunkReader:
    """Reads a file into device memory in chunks through one pinned buffer."""

    def __init__(self, path, chunk_bytes=32 << 20):
        self.path = path
        self.chunk_bytes = chunk_bytes
        self.staging = cuda.pinned_array(chunk_bytes, dtype=np.uint8)
        self.stream = Stream()

    def __iter__(self):
        pointer = self.staging.ctypes.data
        view = memoryview(self.staging)
        with open(self.path, "rb", buffering=0) as handle:
            while True:
                count = handle.readinto(view)
                if not count:
                    break
                chunk = rmm.DeviceBuffer(ptr=pointer, size=count, stream=self.stream)
                self.stream.synchronize()
                yield chunk

    def read(self):
        chunks = list(self)
        self.stream.synchronize()
        return chunks


@cuda.jit
def _histogram(data, counts):
    i = cuda.grid(1)
    stride = cuda.gridsize(1)
    while i < data.size:
        cuda.atomic.add(counts, data[i], 1)
        i += stride


class ByteStatistics:
    def __init__(self):
        self.counts = cuda.to_device(np.zeros(256, dtype=np.int64))

    def update(self, chunk):
        data = cuda.as_cuda_array(chunk)
        _histogram[256, 256](data, self.counts)

    def result(self):
        counts = self.counts.copy_to_host()
        total = counts.sum()
        return counts, counts / max(total, 1)


def analyse(path, pool_bytes=4 << 30):
    rmm.reinitialize(pool_allocator=True, initial_pool_size=pool_bytes)
    statistics = ByteStatistics()
    for chunk in ChunkReader(path).read():
        statistics.update(chunk)
    return statistics.result()


if __name__ == "__main__":
    import sys

    counts, frequency = analyse(sys.argv[1])
    entropy = -(frequency[frequency > 0] * np.log2(frequency[frequency > 0])).sum()
    print(f"{counts.sum()} bytes, {entropy:.3f} bits per byte")
