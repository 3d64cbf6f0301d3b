"""Chunked file scan: raw_read_async on several streams, one buffer per stream."""
import os
import sys

import cupy as cp
import kvikio


class Lane:
    def __init__(self, nbytes):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.buf = cp.empty(nbytes, cp.uint8)
            self.total = cp.zeros((), cp.uint64)
        self.stream.synchronize()
        self.future = None
        self.expected = 0

    def retire(self):
        if self.future is not None:
            got = self.future.check_bytes_done()
            assert got == self.expected, (got, self.expected)
            self.future = None

    def submit(self, f, offset, size):
        self.retire()
        self.future = f.raw_read_async(
            self.buf, self.stream.ptr, size=size, file_offset=offset)
        self.expected = size
        with self.stream:
            self.total += self.buf[:size].sum(dtype=cp.uint64)

    def result(self):
        self.retire()
        self.stream.synchronize()
        return int(self.total.get(stream=self.stream))


def checksum(path, chunk=32 << 20, n_lanes=4):
    size = os.path.getsize(path)
    lanes = [Lane(chunk) for _ in range(n_lanes)]
    with kvikio.CuFile(path, "r") as f:
        for k, offset in enumerate(range(0, size, chunk)):
            lanes[k % n_lanes].submit(f, offset, min(chunk, size - offset))
        return sum(lane.result() for lane in lanes)


if __name__ == "__main__":
    print(checksum(sys.argv[1]))
