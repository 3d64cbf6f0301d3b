"""Per-chunk RMM buffers filled on one stream and reduced on another."""
import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream

gather = cp.ElementwiseKernel(
    "raw float32 src, int64 start, int64 stride", "float32 out",
    "out = src[start + i * stride];", "gather_strided")


class Lane:
    """A CuPy stream together with the RMM view of it."""

    def __init__(self):
        self.cupy = cp.cuda.Stream(non_blocking=True)
        self.rmm = Stream(self.cupy)


class ColumnReader:
    def __init__(self, table):
        self.table = table.ravel()
        self.rows, self.cols = table.shape
        self.lane = Lane()

    def fetch(self, col):
        buf = rmm.DeviceBuffer(size=4 * self.rows, stream=self.lane.rmm)
        view = cp.asarray(buf).view(cp.float32)
        with self.lane.cupy as s:
            gather(self.table, np.int64(col), np.int64(self.cols), view)
            ready = s.record()
        return buf, view, ready


class ColumnStats:
    def __init__(self, reader):
        self.reader = reader
        self.work = Lane()
        with self.work.cupy:
            self.means = cp.zeros(reader.cols, dtype=cp.float64)
            self.peaks = cp.zeros(reader.cols, dtype=cp.float32)

    def one(self, col):
        buf, view, ready = self.reader.fetch(col)
        work = self.work.cupy
        work.wait_event(ready)
        with work:
            self.means[col] = view.mean(dtype=cp.float64)
            self.peaks[col] = cp.abs(view).max()
            finished = work.record()
        self.reader.lane.cupy.wait_event(finished)
        del view, buf

    def run(self):
        for col in range(self.reader.cols):
            self.one(col)
        self.work.cupy.synchronize()
        return cp.asnumpy(self.means), cp.asnumpy(self.peaks)


def main(rows=1 << 22, cols=48):
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    table = cp.random.standard_normal((rows, cols), dtype=cp.float32)
    cp.cuda.Device().synchronize()
    stats = ColumnStats(ColumnReader(table))
    means, peaks = stats.run()
    print("largest |mean|", float(np.abs(means).max()), "largest peak", float(peaks.max()))


if __name__ == "__main__":
    main()
