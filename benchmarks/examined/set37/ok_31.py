"""Batches go through slots of pinned and device memory; the stream hands a slot back."""
import queue

import cupy as cp
import cupyx
import numpy as np


class Slot:
    def __init__(self, rows, columns):
        self.host = cupyx.empty_pinned((rows, columns), dtype=np.float32)
        self.device = cp.empty((rows, columns), dtype=np.float32)
        self.uploaded = cp.cuda.Event(disable_timing=True)


class SlotPool:
    def __init__(self, count, rows, columns):
        self._free = queue.Queue()
        for _ in range(count):
            self._free.put(Slot(rows, columns))
        cp.cuda.Device().synchronize()

    def acquire(self):
        return self._free.get()

    def release_after(self, stream, slot):
        stream.launch_host_func(self._free.put, slot)


class RunningMoments:
    """Mean and covariance of all rows seen so far."""

    def __init__(self, columns, stream):
        self.stream = stream
        with stream:
            self.count = cp.zeros((), cp.float64)
            self.total = cp.zeros(columns, cp.float64)
            self.outer = cp.zeros((columns, columns), cp.float64)

    def update(self, rows):
        with self.stream:
            self.count += rows.shape[0]
            self.total += rows.sum(axis=0, dtype=cp.float64)
            self.outer += (rows.T @ rows).astype(cp.float64)

    def result(self):
        with self.stream:
            mean = self.total / self.count
            covariance = self.outer / self.count - cp.outer(mean, mean)
            return mean.get(), covariance.get()


class StreamingStatistics:
    def __init__(self, rows, columns, slots=3):
        self.rows = rows
        self.upload = cp.cuda.Stream(non_blocking=True)
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.pool = SlotPool(slots, rows, columns)
        self.moments = RunningMoments(columns, self.compute)

    def push(self, batch):
        n = batch.shape[0]
        if n > self.rows:
            raise ValueError("batch does not fit a slot")
        slot = self.pool.acquire()
        slot.host[:n] = batch
        slot.device[:n].set(slot.host[:n], stream=self.upload)
        slot.uploaded.record(self.upload)
        self.compute.wait_event(slot.uploaded)
        self.moments.update(slot.device[:n])
        self.pool.release_after(self.compute, slot)

    def finish(self):
        self.compute.synchronize()
        return self.moments.result()


def read_batches(count, rows, columns, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield rng.standard_normal((rows, columns), dtype=np.float32)


if __name__ == "__main__":
    statistics = StreamingStatistics(rows=65536, columns=128)
    for batch in read_batches(40, 65536, 128):
        statistics.push(batch)
    mean, covariance = statistics.finish()
    print(np.abs(mean).max(), np.trace(covariance))
