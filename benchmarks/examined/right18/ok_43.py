"""Stream-ordered scratch memory handed between two streams (cuda-python)."""
import numpy as np
from cuda.bindings import runtime as rt

H2D = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
D2D = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice


def ok(result):
    if result[0] != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {result[0]}")
    return result[1] if len(result) == 2 else result[1:]


class Edge:
    def __init__(self):
        self.event = ok(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))

    def __call__(self, before, after):
        ok(rt.cudaEventRecord(self.event, before))
        ok(rt.cudaStreamWaitEvent(after, self.event, 0))


class RollingArchive:
    def __init__(self, row_bytes, rows):
        self.row_bytes = row_bytes
        self.rows = rows
        self.ingest = ok(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.place = ok(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.edge = Edge()
        self.archive = ok(rt.cudaMallocAsync(row_bytes * rows, self.place))
        ok(rt.cudaMemsetAsync(self.archive, 0, row_bytes * rows, self.place))
        self.head = 0

    def append(self, row):
        data = np.ascontiguousarray(row).view(np.uint8).reshape(-1)
        if data.nbytes != self.row_bytes:
            raise ValueError("row has the wrong size")
        scratch = ok(rt.cudaMallocAsync(self.row_bytes, self.ingest))
        ok(
            rt.cudaMemcpyAsync(
                scratch, data.ctypes.data, self.row_bytes, H2D, self.ingest
            )
        )
        self.edge(self.ingest, self.place)
        target = int(self.archive) + self.head * self.row_bytes
        ok(rt.cudaMemcpyAsync(target, scratch, self.row_bytes, D2D, self.place))
        ok(rt.cudaFreeAsync(scratch, self.place))
        ok(rt.cudaStreamSynchronize(self.ingest))
        self.head = (self.head + 1) % self.rows

    def grow(self, rows):
        if rows <= self.rows:
            return
        fresh = ok(rt.cudaMallocAsync(self.row_bytes * rows, self.ingest))
        ok(rt.cudaMemsetAsync(fresh, 0, self.row_bytes * rows, self.ingest))
        self.edge(self.ingest, self.place)
        used = self.row_bytes * self.rows
        ok(rt.cudaMemcpyAsync(fresh, self.archive, used, D2D, self.place))
        ok(rt.cudaFreeAsync(self.archive, self.place))
        self.archive, self.rows = fresh, rows

    def read(self, index, dtype):
        out = np.empty(self.row_bytes, dtype=np.uint8)
        source = int(self.archive) + (index % self.rows) * self.row_bytes
        ok(
            rt.cudaMemcpyAsync(
                out.ctypes.data, source, self.row_bytes, D2H, self.place
            )
        )
        ok(rt.cudaStreamSynchronize(self.place))
        return out.view(dtype)

    def close(self):
        if self.archive is None:
            return
        ok(rt.cudaFreeAsync(self.archive, self.place))
        self.archive = None
        for stream in (self.ingest, self.place):
            ok(rt.cudaStreamSynchronize(stream))
            ok(rt.cudaStreamDestroy(stream))


def archive_all(rows, capacity=64):
    rows = [np.asarray(r, dtype=np.float32) for r in rows]
    store = RollingArchive(rows[0].nbytes, capacity)
    try:
        for number, row in enumerate(rows):
            if number == capacity:
                store.grow(2 * capacity)
                store.head = capacity
            store.append(row)
        return [store.read(i, np.float32) for i in range(store.rows)]
    finally:
        store.close()
