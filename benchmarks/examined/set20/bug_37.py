"""Buffer catalog over an RMM pool with a device budget: oldest unreferenced buffers spill."""
import threading
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import cupyx
import rmm
from rmm.pylibrmm.stream import Stream


class RapidsBuffer:
    def __init__(self, buffer_id, array, stream):
        self.id = buffer_id
        self.device_array = array
        self.host_array = None
        self.refs = 0
        self.ready = cp.cuda.Event(disable_timing=True)
        self.ready.record(stream)


class RapidsBufferCatalog:
    def __init__(self, budget):
        self.budget = budget
        self.used = 0
        self.buffers = {}
        self.lock = threading.Lock()
        self.spill_stream = cp.cuda.Stream(non_blocking=True)

    def add(self, buffer_id, array, stream):
        with self.lock:
            self.buffers[buffer_id] = RapidsBuffer(buffer_id, array, stream)
            self.used += array.nbytes

    def acquire(self, buffer_id, stream):
        with self.lock:
            buf = self.buffers[buffer_id]
            buf.refs += 1
        stream.wait_event(buf.ready)
        if buf.device_array is None:
            with stream:
                return buf, cp.asarray(buf.host_array)
        return buf, buf.device_array

    def release(self, buf):
        with self.lock:
            buf.refs -= 1

    def ensure_room(self, nbytes):
        with self.lock:
            for buf in list(self.buffers.values()):
                if self.used + nbytes <= self.budget:
                    break
                if buf.refs == 0 and buf.device_array is not None:
                    self.spill_and_free(buf)

    def spill_and_free(self, buf):
        src = buf.device_array
        host = cupyx.empty_pinned(src.shape, dtype=src.dtype)
        self.spill_stream.wait_event(buf.ready)
        src.get(stream=self.spill_stream, out=host, blocking=False)
        self.spill_stream.synchronize()
        buf.host_array = host
        self.used -= src.nbytes
        buf.device_array = None


class ScanTask:
    """Produces column batches on its own stream."""

    def __init__(self, catalog, rows):
        self.catalog = catalog
        self.rows = rows
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rmm_stream = Stream(self.stream)

    def produce(self, batch_id):
        self.catalog.ensure_room(self.rows * 8)
        memory = rmm.DeviceBuffer(size=self.rows * 8, stream=self.rmm_stream)
        col = cp.asarray(memory).view(cp.float64)
        with self.stream:
            col.fill(batch_id)
            cp.sqrt(col, out=col)
        self.catalog.add(batch_id, col, self.stream)


class JoinTask:
    """Gathers from batches on a second thread and stream."""

    def __init__(self, catalog, rows):
        self.catalog = catalog
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.gather_map = cp.random.permutation(rows)

    def gather_next(self, batch_id):
        buf, col = self.catalog.acquire(batch_id, self.stream)
        with self.stream:
            acc = cp.zeros((), dtype=cp.float64)
            for _ in range(8):
                acc += col[self.gather_map].sum()
        self.catalog.release(buf)
        return acc


def main(nbatches=24, rows=1 << 22):
    rmm.mr.set_current_device_resource(
        rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=256 << 20))
    catalog = RapidsBufferCatalog(budget=3 * rows * 8)
    scan = ScanTask(catalog, rows)
    join = JoinTask(catalog, rows)
    sums = []
    with ThreadPoolExecutor(max_workers=1) as task_thread:
        for k in range(nbatches):
            scan.produce(k)
            sums.append(task_thread.submit(join.gather_next, k).result())
    join.stream.synchronize()
    return [float(s) / (8 * rows) for s in sums]


if __name__ == "__main__":
    print(main())
