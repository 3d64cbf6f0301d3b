import cupy as cp
import cupyx
import numpy as np


class Buffer:
    """Device or host data of one spilled partition."""

    def __init__(self, data, stream):
        self.data = data
        self.stream = stream
        self.latest_write_event = stream.record() if isinstance(data, cp.ndarray) else None

    @property
    def nbytes(self):
        return len(self.data) if isinstance(self.data, (bytes, bytearray)) else self.data.nbytes

    @property
    def on_device(self):
        return isinstance(self.data, cp.ndarray)


class BufferResource:
    def __init__(self, chunk_size=8 << 20):
        self.chunk_size = chunk_size

    def _stage(self, dst, chunk, stream):
        host = cupyx.empty_pinned(len(chunk), dtype=np.uint8)
        host[:] = np.frombuffer(chunk, dtype=np.uint8)
        dst.data.copy_from_host_async(host.ctypes.data, host.nbytes, stream)

    def move_to_device(self, buf, stream):
        if buf.on_device:
            return buf
        view = memoryview(buf.data)
        with stream:
            out = cp.empty(len(view), dtype=cp.uint8)
        for start in range(0, len(view), self.chunk_size):
            chunk = view[start : start + self.chunk_size]
            self._stage(out[start : start + len(chunk)], chunk, stream)
        return Buffer(out, stream)

    def move_to_host(self, buf):
        if not buf.on_device:
            return buf
        host = cp.asnumpy(buf.data, stream=buf.stream)
        buf.stream.synchronize()
        return Buffer(host.tobytes(), buf.stream)


class SpillCollection:
    def __init__(self, resource):
        self.resource = resource
        self.collection = {}

    def spill(self, amount):
        freed = 0
        for key, buf in self.collection.items():
            if freed >= amount:
                break
            if buf.on_device:
                self.collection[key] = self.resource.move_to_host(buf)
                freed += buf.nbytes
        return freed

    def extract(self, key, stream):
        buf = self.collection.pop(key)
        out = self.resource.move_to_device(buf, stream)
        if out.stream is not stream:
            stream.wait_event(out.latest_write_event)
        return out.data


def unspill_and_sum(resource, spilled, keys):
    stream = cp.cuda.Stream(non_blocking=True)
    total = 0
    for key in keys:
        data = spilled.extract(key, stream)
        with stream:
            total += int(data.view(cp.float32).sum(dtype=cp.float64))
    return total
