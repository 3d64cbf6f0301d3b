"""Small pinned slabs for filter literals that are uploaded ahead of a scan."""
import threading

import cupy as cp
import numpy as np


class SmallPinnedHostMemoryResource:
    """Slab pool over page-locked memory, one free list per size class."""

    SIZE_CLASSES = (256, 1024, 4096)

    def __init__(self, slabs_per_class=32):
        self._lock = threading.Lock()
        self._blocks = []
        self._free = {}
        for size in self.SIZE_CLASSES:
            block = cp.cuda.alloc_pinned_memory(size * slabs_per_class)
            self._blocks.append(block)
            view = np.frombuffer(block, np.uint8, size * slabs_per_class)
            self._free[size] = [view[i * size:(i + 1) * size] for i in range(slabs_per_class)]

    def _size_class(self, nbytes):
        for size in self.SIZE_CLASSES:
            if nbytes <= size:
                return size
        raise MemoryError(nbytes)

    def allocate(self, nbytes, stream):
        size = self._size_class(nbytes)
        with self._lock:
            return self._free[size].pop()

    def deallocate(self, slab, stream):
        with self._lock:
            self._free[slab.nbytes].append(slab)


class HostColumn:
    """Values collected on the host before they become a device column."""

    def __init__(self, mr, values, dtype, stream):
        self.mr = mr
        self.stream = stream
        self.count = len(values)
        self.dtype = np.dtype(dtype)
        self.slab = mr.allocate(self.count * self.dtype.itemsize, stream)
        self.view = self.slab[: self.count * self.dtype.itemsize].view(self.dtype)
        self.view[:] = values

    def to_device(self):
        with self.stream:
            out = cp.empty(self.count, dtype=self.dtype)
        out.data.copy_from_host_async(self.view.ctypes.data, out.nbytes, self.stream)
        return out

    def close(self):
        self.mr.deallocate(self.slab, self.stream)
        self.slab = self.view = None


def stats_filter(mr, row_groups, lo, hi, stream):
    """Boolean mask of the row groups whose [min, max] meets [lo, hi]."""
    mins = HostColumn(mr, [g.min for g in row_groups], np.int64, stream)
    maxs = HostColumn(mr, [g.max for g in row_groups], np.int64, stream)
    d_mins, d_maxs = mins.to_device(), maxs.to_device()
    mins.close()
    maxs.close()
    with stream:
        return (d_mins <= hi) & (d_maxs >= lo)


class ScanTask(threading.Thread):
    def __init__(self, mr, files, lo, hi):
        super().__init__()
        self.mr, self.files, self.lo, self.hi = mr, files, lo, hi
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.selected = []

    def run(self):
        masks = [stats_filter(self.mr, f.row_groups, self.lo, self.hi, self.stream) for f in self.files]
        for file, mask in zip(self.files, masks):
            keep = mask.get(stream=self.stream)
            self.selected.append((file, np.flatnonzero(keep)))


def scan(partitions, lo, hi):
    mr = SmallPinnedHostMemoryResource()
    tasks = [ScanTask(mr, files, lo, hi) for files in partitions]
    for task in tasks:
        task.start()
    for task in tasks:
        task.join()
    return [pair for task in tasks for pair in task.selected]
