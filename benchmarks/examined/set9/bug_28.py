import cupy as cp
import cupyx
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream


class PartitionUploader:
    """Moves fixed-size host partitions into RMM buffers through a pinned staging area."""

    def __init__(self, partition_nbytes, pool_size=2 << 30):
        rmm.reinitialize(pool_allocator=True, initial_pool_size=pool_size)
        self.stream = Stream()
        self.partition_nbytes = partition_nbytes
        self.staging = cupyx.empty_pinned((partition_nbytes,), dtype=np.uint8)

    def _fill(self, source, index):
        begin = index * self.partition_nbytes
        view = source[begin : begin + self.partition_nbytes]
        self.staging[: view.size] = view
        return view.size

    def upload(self, source, index):
        size = self._fill(source, index)
        host_ptr = self.staging.ctypes.data
        return rmm.DeviceBuffer(ptr=host_ptr, size=size, stream=self.stream)

    def upload_all(self, source):
        count = -(-source.size // self.partition_nbytes)
        buffers = [self.upload(source, i) for i in range(count)]
        self.stream.synchronize()
        return buffers


class ColumnStore:
    def __init__(self, uploader):
        self.uploader = uploader
        self.columns = {}

    def load(self, name, path, dtype):
        raw = np.memmap(path, dtype=np.uint8, mode="r")
        buffers = self.uploader.upload_all(raw)
        parts = []
        for buf in buffers:
            memory = cp.cuda.UnownedMemory(buf.ptr, buf.size, buf)
            count = buf.size // np.dtype(dtype).itemsize
            parts.append(cp.ndarray((count,), dtype=dtype, memptr=cp.cuda.MemoryPointer(memory, 0)))
        self.columns[name] = parts

    def sum(self, name):
        return float(sum(part.sum() for part in self.columns[name]))
