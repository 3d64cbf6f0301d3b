import cupy as cp
import cupyx
import numpy as np
import rmm
from cupy.cuda import runtime
from rmm.pylibrmm.stream import Stream


class OffsetsColumn:
    """int64 offsets that live in an rmm.DeviceBuffer."""

    def __init__(self, lengths, stream):
        offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        self.size = offsets.size
        self.buffer = rmm.DeviceBuffer.to_device(offsets.tobytes(), stream=Stream(stream))
        stream.synchronize()

    def address(self, index):
        return self.buffer.ptr + index * 8


class ListReader:
    def __init__(self, offsets, chars, stream):
        self.offsets = offsets
        self.chars = chars
        self.stream = stream
        self._scratch = cupyx.empty_pinned((1,), dtype=np.int64)

    def get_value(self, column, index):
        if not 0 <= index < column.size:
            raise IndexError("get_value index out of bounds")
        runtime.memcpyAsync(
            self._scratch.ctypes.data,
            column.address(index),
            self._scratch.nbytes,
            runtime.memcpyDeviceToHost,
            self.stream.ptr,
        )
        return int(self._scratch[0])

    def slice(self, index):
        begin = self.get_value(self.offsets, index)
        end = self.get_value(self.offsets, index + 1)
        return self.chars[begin:end]

    def histogram(self, index, bins=256):
        with self.stream:
            return cp.bincount(self.slice(index), minlength=bins)


def longest_row(lists, stream):
    lengths = [len(x) for x in lists]
    with stream:
        chars = cp.asarray(np.frombuffer(b"".join(lists), dtype=np.uint8))
    reader = ListReader(OffsetsColumn(lengths, stream), chars, stream)
    index = int(np.argmax(lengths))
    with stream:
        return cp.asnumpy(reader.histogram(index))
