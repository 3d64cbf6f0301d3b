"""Overlap copies and compute with two streams and two buffers."""
import numpy as np
from numba import cuda


@cuda.jit
def compute(data, factor):
    i = cuda.grid(1)
    if i < data.size:
        data[i] *= factor


class OverlapPipeline:
    def __init__(self, n, chunks):
        self.n = n
        self.chunks = chunks
        self.threads = 256
        self.blocks = (n + self.threads - 1) // self.threads
        self.st_copy = cuda.stream()
        self.st_comp = cuda.stream()
        self.h_buf = [cuda.pinned_array(n, dtype=np.float32) for _ in range(chunks)]
        self.d_buf = [cuda.device_array(n, dtype=np.float32) for _ in range(2)]
        for h in self.h_buf:
            h[:] = 1.0

    def _upload(self, i):
        self.d_buf[i % 2].copy_to_device(self.h_buf[i], stream=self.st_copy)

    def _process(self, i):
        d = self.d_buf[i % 2]
        compute[self.blocks, self.threads, self.st_comp](d, np.float32(2.0))
        d.copy_to_host(self.h_buf[i], stream=self.st_copy)

    def run(self):
        for i in range(self.chunks):
            self._upload(i)
            if i > 0:
                self._process(i - 1)
        self._process(self.chunks - 1)
        self.st_copy.synchronize()
        self.st_comp.synchronize()
        return [h.copy() for h in self.h_buf]


def main():
    pipe = OverlapPipeline(1 << 22, chunks=8)
    out = pipe.run()
    ok = all(np.allclose(h, 2.0) for h in out)
    print("Done", ok)


if __name__ == "__main__":
    main()
