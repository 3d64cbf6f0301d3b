"""Out-of-core scaling of a large file with KvikIO: two buffers, file futures, one compute stream."""
import cupy as cp
import kvikio
import numpy as np


class Chunk:
    def __init__(self, n):
        self.buf = cp.empty(n, cp.float32)
        self.reading = None
        self.writing = None
        self.computed = cp.cuda.Event(block=True, disable_timing=True)


def scale_file(src: str, dst: str, total: int, n: int):
    stream = cp.cuda.Stream(non_blocking=True)
    chunks = [Chunk(n), Chunk(n)]
    cp.cuda.Device().synchronize()
    count = total // n
    with kvikio.CuFile(src, "r") as fin, kvikio.CuFile(dst, "w") as fout:

        def begin(k):
            c = chunks[k % 2]
            if c.writing is not None:
                c.writing.get()
                c.writing = None
            c.reading = fin.pread(c.buf, file_offset=k * c.buf.nbytes)

        begin(0)
        for k in range(count):
            if k + 1 < count:
                begin(k + 1)
            c = chunks[k % 2]
            c.reading.get()
            with stream:
                peak = cp.abs(c.buf).max()
                cp.divide(c.buf, cp.maximum(peak, 1e-6), out=c.buf)
            c.computed.record(stream)
            c.computed.synchronize()
            c.writing = fout.pwrite(c.buf, file_offset=k * c.buf.nbytes)
        for c in chunks:
            if c.writing is not None:
                c.writing.get()


def main():
    n, total = 1 << 20, 1 << 24
    np.random.default_rng(0).standard_normal(total).astype(np.float32).tofile("raw.bin")
    scale_file("raw.bin", "scaled.bin", total, n)
    print(np.abs(np.fromfile("scaled.bin", np.float32)).max())


if __name__ == "__main__":
    main()
