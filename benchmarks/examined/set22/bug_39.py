"""Column-chunk reader: padded device buffers filled by KvikIO's thread pool."""
import sys

import cupy as cp
import kvikio

ALIGN = 256


class DeviceSource:
    def __init__(self, path):
        self.file = kvikio.CuFile(path, "r")

    def device_read_async(self, offset, size, dst):
        return self.file.pread(dst[:size], size=size, file_offset=offset)

    def close(self):
        self.file.close()


class ChunkReader:
    def __init__(self, source):
        self.source = source
        self.stream = cp.cuda.Stream(non_blocking=True)

    def _make_buffer(self, size):
        padded = (size + ALIGN - 1) // ALIGN * ALIGN
        with self.stream:
            buf = cp.empty(padded, cp.uint8)
            cp.cuda.runtime.memsetAsync(
                buf.data.ptr, 0, padded, self.stream.ptr)
        return buf

    def read_chunks(self, ranges):
        buffers, futures = [], []
        for offset, size in ranges:
            buf = self._make_buffer(size)
            futures.append(self.source.device_read_async(offset, size, buf))
            buffers.append(buf)
        for (_, size), future in zip(ranges, futures):
            assert future.get() == size
        return buffers

    def checksums(self, ranges):
        buffers = self.read_chunks(ranges)
        with self.stream:
            sums = [b.view(cp.uint32).sum(dtype=cp.uint64) for b in buffers]
        return [int(s.get(stream=self.stream)) for s in sums]


def main(path, n_chunks=16, size=(8 << 20) + 100):
    source = DeviceSource(path)
    reader = ChunkReader(source)
    ranges = [(k * size, size) for k in range(n_chunks)]
    first = reader.checksums(ranges)
    second = reader.checksums(ranges)
    source.close()
    assert first == second


if __name__ == "__main__":
    main(sys.argv[1])
