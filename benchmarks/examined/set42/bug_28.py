"""Chunked column upload with RMM device buffers and CuPy reductions."""
import cupy as cp
import cupyx
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream


class ColumnUploader:
    """Moves chunks of a column through one reusable staging array."""

    def __init__(self, chunk_rows: int, dtype=np.float32):
        self.dtype = np.dtype(dtype)
        self.cp_stream = cp.cuda.Stream(non_blocking=True)
        self.stream = Stream(self.cp_stream)
        self.staging = cupyx.empty_pinned(chunk_rows, dtype=self.dtype)

    def upload(self, chunk: np.ndarray) -> cp.ndarray:
        n = chunk.shape[0]
        self.staging[:n] = chunk
        buf = rmm.DeviceBuffer(
            ptr=self.staging.ctypes.data,
            size=n * self.dtype.itemsize,
            stream=self.stream,
        )
        return cp.asarray(buf).view(self.dtype)


class ColumnStats:
    def __init__(self, uploader: ColumnUploader):
        self.uploader = uploader
        self.count = 0
        with uploader.cp_stream:
            self.total = cp.zeros((), dtype=cp.float64)
            self.square = cp.zeros((), dtype=cp.float64)

    def add(self, chunk: np.ndarray):
        column = self.uploader.upload(chunk)
        with self.uploader.cp_stream:
            self.total += column.sum(dtype=cp.float64)
            self.square += (column * column).sum(dtype=cp.float64)
        self.count += chunk.shape[0]

    def result(self):
        with self.uploader.cp_stream:
            mean = self.total / self.count
            var = self.square / self.count - mean * mean
            return float(mean), float(var)


def chunks(rows: int, chunk_rows: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    for start in range(0, rows, chunk_rows):
        n = min(chunk_rows, rows - start)
        yield rng.standard_normal(n, dtype=np.float32) + start


def main():
    pool = rmm.mr.PoolMemoryResource(
        rmm.mr.CudaMemoryResource(), initial_pool_size=1 << 30
    )
    rmm.mr.set_current_device_resource(pool)
    chunk_rows = 1 << 22
    uploader = ColumnUploader(chunk_rows)
    stats = ColumnStats(uploader)
    for chunk in chunks(chunk_rows * 10 + 77, chunk_rows):
        stats.add(chunk)
    print("mean %.3f var %.3f" % stats.result())


if __name__ == "__main__":
    main()
