import hashlib
import struct

import cupy as cp
import cupyx
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream


class FrameWriter:
    """Writes device frames to a spill file, one header per frame."""

    MAGIC = b"RMF1"

    def __init__(self, path, max_frame=64 << 20):
        self.path = path
        self.cupy_stream = cp.cuda.Stream(non_blocking=True)
        self.stream = Stream(self.cupy_stream)
        self.staging = cupyx.empty_pinned(max_frame, dtype=np.uint8)
        self.file = open(path, "wb")
        self.index = []

    def _device_to_host(self, frame):
        host = self.staging[: frame.nbytes]
        frame.copy_to_host(host, stream=self.stream)
        return host

    def serialize(self, key, frame):
        if not isinstance(frame, rmm.DeviceBuffer):
            raise TypeError(f"expected rmm.DeviceBuffer, got {type(frame)}")
        host = self._device_to_host(frame)
        digest = hashlib.sha1(host).digest()
        offset = self.file.tell()
        self.file.write(self.MAGIC)
        self.file.write(struct.pack("<Q", frame.nbytes))
        self.file.write(digest)
        self.file.write(host)
        self.index.append((key, offset, frame.nbytes))

    def close(self):
        self.file.close()


class FrameReader:
    def __init__(self, path, index):
        self.path = path
        self.index = {k: (o, n) for k, o, n in index}

    def load(self, key):
        offset, nbytes = self.index[key]
        with open(self.path, "rb") as f:
            f.seek(offset)
            header = f.read(len(FrameWriter.MAGIC) + 8 + 20)
            data = f.read(nbytes)
        if hashlib.sha1(data).digest() != header[-20:]:
            raise IOError(f"corrupt frame {key!r}")
        return rmm.DeviceBuffer.to_device(data)


def spill_columns(columns, path):
    writer = FrameWriter(path)
    try:
        cp.cuda.Device().synchronize()
        for name, col in columns.items():
            writer.serialize(name, col)
    finally:
        writer.close()
    return FrameReader(path, writer.index)
