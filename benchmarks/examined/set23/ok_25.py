"""Normalise large float32 arrays on disk, straight through GPU memory."""
import os

import cupy as cp
import kvikio


class ArrayNormaliser:
    def __init__(self, chunk_items=1 << 24):
        self.chunk_items = chunk_items
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.buffers = [cp.empty(chunk_items, dtype=cp.float32) for _ in range(2)]
        self.results = [cp.empty(chunk_items, dtype=cp.float32) for _ in range(2)]
        cp.cuda.Device().synchronize()

    def _spans(self, nbytes):
        step = self.chunk_items * 4
        for start in range(0, nbytes, step):
            yield start, min(step, nbytes - start)

    def process(self, src_path, dst_path):
        nbytes = os.path.getsize(src_path)
        spans = list(self._spans(nbytes))
        total = 0.0
        with kvikio.CuFile(src_path, "r") as src, kvikio.CuFile(dst_path, "w") as dst:
            start, size = spans[0]
            pending = src.pread(self.buffers[0], size=size, file_offset=start)
            for k, (start, size) in enumerate(spans):
                pending.get()
                buf = self.buffers[k % 2][: size // 4]
                out = self.results[k % 2][: size // 4]
                if k + 1 < len(spans):
                    nstart, nsize = spans[k + 1]
                    pending = src.pread(
                        self.buffers[(k + 1) % 2], size=nsize, file_offset=nstart
                    )
                with self.stream:
                    mean = buf.mean()
                    cp.subtract(buf, mean, out=out)
                    energy = (out * out).sum()
                self.stream.synchronize()
                dst.pwrite(out, size=size, file_offset=start).get()
                total += float(energy)
        return total


if __name__ == "__main__":
    norm = ArrayNormaliser()
    for name in ("a.bin", "b.bin"):
        print(name, norm.process(name, name + ".norm"))
