"""Column statistics of a large binary file with KvikIO and a pool of reader threads."""
import concurrent.futures
import os
import threading

import cupy as cp
import cupyx
import kvikio
import kvikio.defaults
import numpy as np

_MOMENTS = cp.ReductionKernel(
    "float32 x", "float64 y", "(double)x * x", "a + b", "y = a", "0", "sum_of_squares")


class WorkerState(threading.local):
    """Stream and pinned result of the calling thread."""

    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.result = cupyx.empty_pinned(3, dtype=np.float64)


class ColumnScanner:
    def __init__(self, path, columns, rows_per_chunk=1 << 18):
        self.path = path
        self.columns = columns
        self.row_bytes = columns * 4
        self.rows_per_chunk = rows_per_chunk
        self.rows = os.path.getsize(path) // self.row_bytes
        self.state = WorkerState()

    def _chunks(self):
        for begin in range(0, self.rows, self.rows_per_chunk):
            yield begin, min(begin + self.rows_per_chunk, self.rows)

    def _scan(self, handle, begin, end):
        stream = self.state.stream
        pinned = self.state.result
        count = (end - begin) * self.columns
        with stream:
            buf = cp.empty(count, dtype=cp.float32)
            future = handle.pread(buf, size=buf.nbytes, file_offset=begin * self.row_bytes)
            read = future.get()
            if read != buf.nbytes:
                raise IOError(f"short read at row {begin}: {read} of {buf.nbytes}")
            stats = cp.empty(3, dtype=cp.float64)
            stats[0] = buf.sum(dtype=cp.float64)
            stats[1] = _MOMENTS(buf)
            stats[2] = cp.abs(buf).max()
            stats.get(stream=stream, out=pinned, blocking=False)
            stream.synchronize()
        return pinned.copy()

    def run(self, num_threads):
        total = np.zeros(3)
        with kvikio.CuFile(self.path, "r") as handle:
            with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
                futures = [pool.submit(self._scan, handle, b, e) for b, e in self._chunks()]
                for future in concurrent.futures.as_completed(futures):
                    part = future.result()
                    total[:2] += part[:2]
                    total[2] = max(total[2], part[2])
        n = self.rows * self.columns
        mean = total[0] / n
        return mean, np.sqrt(total[1] / n - mean * mean), total[2]


def main(path="/data/table.f32", columns=32):
    if not os.path.exists(path):
        rng = np.random.default_rng(0)
        with open(path, "wb") as f:
            for _ in range(16):
                f.write(rng.standard_normal((1 << 18, columns), dtype=np.float32).tobytes())
    scanner = ColumnScanner(path, columns)
    print("mean %.6f std %.6f max %.3f" % scanner.run(num_threads=4))


if __name__ == "__main__":
    main()
