"""Spillable batches: device store, host store and the catalog that moves between them."""
import itertools
import threading

import cupy as cp
import cupyx
import numpy as np


class RapidsBuffer:
    """A batch in one tier; ``device`` or ``host`` is set."""

    def __init__(self, buffer_id, priority, device):
        self.id = buffer_id
        self.priority = priority
        self.device = device
        self.host = None
        self.shape, self.dtype, self.nbytes = device.shape, device.dtype, device.nbytes


class RapidsBufferCatalog:
    def __init__(self, device_limit):
        self.device_limit = device_limit
        self.device_bytes = 0
        self._ids = itertools.count()
        self._buffers = {}
        self._lock = threading.Lock()

    def add_batch(self, batch, priority, stream):
        """Register a batch made on ``stream``; spills others if the store is full."""
        with self._lock:
            self._ensure_space(batch.nbytes, stream)
            buf = RapidsBuffer(next(self._ids), priority, batch)
            self._buffers[buf.id] = buf
            self.device_bytes += buf.nbytes
            return buf.id

    def _ensure_space(self, nbytes, stream):
        spillable = sorted((b for b in self._buffers.values() if b.device is not None),
                           key=lambda b: b.priority)
        for buf in spillable:
            if self.device_bytes + nbytes <= self.device_limit:
                return
            self._spill(buf, stream)

    def _spill(self, buf, stream):
        host = cupyx.empty_pinned(buf.shape, dtype=buf.dtype)
        buf.device.get(stream=stream, out=host, blocking=False)
        stream.synchronize()
        buf.host, buf.device = host, None
        self.device_bytes -= buf.nbytes

    def acquire(self, buffer_id, stream):
        """The batch on the device, and removes it from the catalog."""
        with self._lock:
            buf = self._buffers.pop(buffer_id)
            if buf.device is not None:
                self.device_bytes -= buf.nbytes
                return buf.device
            with stream:
                batch = cp.empty(buf.shape, dtype=buf.dtype)
            batch.set(buf.host, stream=stream)
            stream.synchronize()
            return batch


class HashAggregateTask(threading.Thread):
    """One Spark task: partial aggregates of its input batches, merged at the end."""

    def __init__(self, catalog, batches, num_groups):
        super().__init__()
        self.catalog = catalog
        self.batches = batches
        self.num_groups = num_groups
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.result = None

    def _partial(self, keys, values):
        with self.stream:
            d_keys = cp.asarray(keys)
            d_values = cp.asarray(values)
            return cp.bincount(d_keys, weights=d_values, minlength=self.num_groups)

    def run(self):
        handles = []
        for i, (keys, values) in enumerate(self.batches):
            partial = self._partial(keys, values)
            handles.append(self.catalog.add_batch(partial, priority=i, stream=self.stream))
        with self.stream:
            total = cp.zeros(self.num_groups)
            for handle in handles:
                total += self.catalog.acquire(handle, self.stream)
        self.result = total.get(stream=self.stream)


def aggregate(partitions, num_groups, device_limit=1 << 28):
    catalog = RapidsBufferCatalog(device_limit)
    tasks = [HashAggregateTask(catalog, part, num_groups) for part in partitions]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    return np.sum([task.result for task in tasks], axis=0)
