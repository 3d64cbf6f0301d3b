import mmap
import os
from typing import Iterator, List

import cupy as cp
import cupyx
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream


def iter_row_groups(path: str, row_group_bytes: int) -> Iterator[memoryview]:
    size = os.path.getsize(path)
    with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        view = memoryview(mapped)
        try:
            for start in range(0, size, row_group_bytes):
                chunk = view[start : start + row_group_bytes]
                yield chunk
                chunk.release()
        finally:
            view.release()


class RowGroupUploader:
    """Copies the row groups of a column file into device buffers on its own stream."""

    def __init__(self, row_group_bytes: int):
        self.row_group_bytes = row_group_bytes
        self.stream = Stream()
        self._staging = cupyx.empty_pinned(row_group_bytes, dtype=np.uint8)

    def to_device(self, chunk: memoryview) -> rmm.DeviceBuffer:
        n = len(chunk)
        self._staging[:n] = np.frombuffer(chunk, dtype=np.uint8)
        return rmm.DeviceBuffer(
            ptr=self._staging.ctypes.data, size=n, stream=self.stream
        )

    def upload(self, path: str) -> List[rmm.DeviceBuffer]:
        buffers = []
        for chunk in iter_row_groups(path, self.row_group_bytes):
            buffers.append(self.to_device(chunk))
        self.stream.synchronize()
        return buffers


def as_column(buffer: rmm.DeviceBuffer, dtype) -> cp.ndarray:
    return cp.asarray(buffer).view(dtype)


def column_sum(path: str, dtype=np.int32, row_group_bytes: int = 1 << 22) -> int:
    uploader = RowGroupUploader(row_group_bytes)
    total = 0
    for buffer in uploader.upload(path):
        total += int(as_column(buffer, dtype).sum())
    return total
