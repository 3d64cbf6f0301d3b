"""Double-buffered reading of a binary matrix with KvikIO and a row reduction."""
import os

import cupy as cp
import kvikio


class BlockReader:
    def __init__(self, path, rows, cols):
        self.file = kvikio.CuFile(path, "r")
        self.nbytes = rows * cols * 4
        self.count = os.path.getsize(path) // self.nbytes
        self.buffers = [cp.empty((rows, cols), cp.float32) for _ in range(2)]
        cp.cuda.Device().synchronize()

    def _start(self, k):
        return self.file.pread(self.buffers[k % 2], size=self.nbytes, file_offset=k * self.nbytes)

    def __iter__(self):
        pending = self._start(0)
        for k in range(self.count):
            pending.get()
            if k + 1 < self.count:
                pending = self._start(k + 1)
            yield self.buffers[k % 2]

    def close(self):
        self.file.close()


def row_norms(reader, stream):
    norms = []
    with stream:
        for block in reader:
            norms.append(cp.sqrt(cp.square(block).sum(axis=1)))
            stream.synchronize()
        return cp.concatenate(norms).get()


def main():
    reader = BlockReader("matrix.f32", 4096, 4096)
    norms = row_norms(reader, cp.cuda.Stream(non_blocking=True))
    reader.close()
    print(norms.shape, norms.max())


if __name__ == "__main__":
    main()
