from dataclasses import dataclass
from typing import List, Optional

import cupy as cp
import numpy as np

COLUMN_VIEW = np.dtype(
    [("data", np.uint64), ("mask", np.uint64), ("size", np.int64), ("offset", np.int64)]
)

_ROW_NULLS = cp.RawKernel(
    r"""
struct View { const double* data; const unsigned char* mask; long long size; long long offset; };
extern "C" __global__ void row_null_count(const View* cols, int ncols, int nrows, int* out) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= nrows) return;
    int n = 0;
    for (int c = 0; c < ncols; ++c)
        if (cols[c].mask && !cols[c].mask[cols[c].offset + r]) ++n;
    out[r] = n;
}
""",
    "row_null_count",
)


@dataclass
class Column:
    data: cp.ndarray
    mask: Optional[cp.ndarray]
    offset: int = 0

    @property
    def size(self):
        return self.data.size - self.offset


def contiguous_copy_column_device_views(columns: List[Column], stream):
    nbytes = len(columns) * COLUMN_VIEW.itemsize
    pinned = cp.cuda.alloc_pinned_memory(nbytes)
    host = np.frombuffer(pinned, dtype=COLUMN_VIEW, count=len(columns))
    for i, col in enumerate(columns):
        mask = 0 if col.mask is None else col.mask.data.ptr
        host[i] = (col.data.data.ptr, mask, col.size, col.offset)
    with stream:
        views = cp.empty(nbytes, dtype=cp.uint8)
    views.data.copy_from_host_async(host.ctypes.data, nbytes, stream)
    return views


class TableDeviceView:
    def __init__(self, columns, stream):
        self.columns = columns
        self.views = contiguous_copy_column_device_views(columns, stream)
        self.num_rows = columns[0].size

    def row_null_counts(self):
        out = cp.empty(self.num_rows, dtype=cp.int32)
        _ROW_NULLS(
            ((self.num_rows + 255) // 256,), (256,),
            (self.views, cp.int32(len(self.columns)), cp.int32(self.num_rows), out),
        )
        return out


def null_counts(tables):
    stream = cp.cuda.Stream(non_blocking=True)
    cp.cuda.get_current_stream().synchronize()
    device_views = [TableDeviceView(columns, stream) for columns in tables]
    with stream:
        counts = [view.row_null_counts() for view in device_views]
    stream.synchronize()
    return counts
