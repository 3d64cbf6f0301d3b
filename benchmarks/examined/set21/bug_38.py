"""Data sources for the file readers: host files and device buffers behind one interface."""
import itertools
import threading

import cupy as cp
import cupyx
import numpy as np


class StreamPool:
    def __init__(self, size=32):
        self._streams = [cp.cuda.Stream(non_blocking=True) for _ in range(size)]
        self._cycle = itertools.cycle(self._streams)
        self._lock = threading.Lock()

    def get_stream(self):
        with self._lock:
            return next(self._cycle)


_pool = None


def global_cuda_stream_pool():
    global _pool
    if _pool is None:
        _pool = StreamPool()
    return _pool


class FileSource:
    def __init__(self, path):
        self._map = np.memmap(path, dtype=np.uint8, mode="r")

    def size(self):
        return self._map.size

    def host_read(self, offset, size):
        return np.array(self._map[offset:offset + size])

    def device_read(self, offset, size, stream):
        with stream:
            return cp.asarray(self._map[offset:offset + size])


class DeviceBufferSource:
    """Source over bytes that are already in device memory."""

    def __init__(self, data):
        self._data = data.view(cp.uint8).reshape(-1)

    def size(self):
        return self._data.size

    def host_read(self, offset, size):
        stream = global_cuda_stream_pool().get_stream()
        host = cupyx.empty_pinned(size, dtype=np.uint8)
        self._data[offset:offset + size].get(stream=stream, out=host, blocking=False)
        stream.synchronize()
        return host

    def device_read(self, offset, size, stream):
        return self._data[offset:offset + size]


class RecordReader:
    """Header on the host, fixed-width records on the device."""

    MAGIC = 0x4F425231
    HEADER = np.dtype([("magic", "<u4"), ("columns", "<u4"), ("rows", "<u8")])

    def __init__(self, source):
        self.source = source

    def read(self, stream):
        raw = self.source.host_read(0, self.HEADER.itemsize)
        header = raw.view(self.HEADER)[0]
        if header["magic"] != self.MAGIC:
            raise ValueError("not a record file")
        rows, columns = int(header["rows"]), int(header["columns"])
        body = self.source.device_read(self.HEADER.itemsize, rows * columns * 4, stream)
        with stream:
            return body.view(cp.int32).reshape(rows, columns).T.copy()


_xor = cp.ElementwiseKernel("uint8 c, uint8 key", "uint8 p", "p = c ^ key", "xor_bytes")


def read_encrypted(path, key, stream):
    """Decrypt a file on the device and read it from the decrypted buffer."""
    source = FileSource(path)
    cipher = source.device_read(0, source.size(), stream)
    with stream:
        plain = _xor(cipher, np.uint8(key))
    return RecordReader(DeviceBufferSource(plain)).read(stream)


def column_sums(paths, key):
    stream = cp.cuda.Stream(non_blocking=True)
    sums = []
    for path in paths:
        table = read_encrypted(path, key, stream)
        with stream:
            sums.append(table.sum(axis=1).get(stream=stream))
    return np.sum(sums, axis=0)
