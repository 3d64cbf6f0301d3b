import os
from typing import List, Sequence

import cupy as cp
import kvikio


class ShardReader:
    """Streams feature shards from NVMe into device memory and normalises them."""

    def __init__(self, paths: Sequence[str], dtype=cp.float32):
        self.dtype = cp.dtype(dtype)
        self.files = [kvikio.CuFile(path, "r") for path in paths]
        self.sizes = [os.path.getsize(path) for path in paths]
        self.io_stream = cp.cuda.Stream(non_blocking=True)
        self.compute_stream = cp.cuda.Stream(non_blocking=True)
        self.buffers = [cp.empty(n // self.dtype.itemsize, dtype=self.dtype) for n in self.sizes]
        self.means = [cp.zeros((), dtype=self.dtype) for _ in self.sizes]
        self.futures: List[kvikio.cufile.IOFutureStream] = []
        cp.cuda.Device().synchronize()

    def start(self) -> None:
        self.futures = [
            f.raw_read_async(buf, self.io_stream.ptr, size)
            for f, buf, size in zip(self.files, self.buffers, self.sizes)
        ]

    def normalise(self) -> None:
        with self.compute_stream:
            for buf, mean in zip(self.buffers, self.means):
                mean[...] = buf.mean()
                buf -= mean
                buf /= buf.std() + 1e-6

    def check(self) -> None:
        for future, size in zip(self.futures, self.sizes):
            done = future.check_bytes_done()
            if done != size:
                raise IOError(f"short read: {done} of {size} bytes")
        self.futures.clear()

    def close(self) -> None:
        for f in self.files:
            f.close()


def load_features(paths: Sequence[str]) -> List[cp.ndarray]:
    reader = ShardReader(paths)
    try:
        reader.start()
        reader.normalise()
        reader.check()
        reader.compute_stream.synchronize()
        return reader.buffers
    finally:
        reader.close()
