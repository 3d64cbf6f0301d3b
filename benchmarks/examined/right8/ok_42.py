"""RMM: device buffers per request on per-worker streams, results collected after a drain."""
from collections import defaultdict

import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream


class ByteStore:
    """Moves records to the device, XORs them with a key, and brings them back."""

    def __init__(self, workers=3):
        rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(workers)]
        self.rmm_streams = [Stream(s) for s in self.streams]
        self._open = defaultdict(list)

    def submit(self, k, record, key):
        lane = k % len(self.streams)
        stream, rstream = self.streams[lane], self.rmm_streams[lane]
        buf = rmm.DeviceBuffer(size=record.nbytes, stream=rstream)
        mem = cp.cuda.UnownedMemory(buf.ptr, buf.size, buf)
        view = cp.ndarray(record.shape, record.dtype, cp.cuda.MemoryPointer(mem, 0))
        with stream:
            view.set(record, stream=stream)
            view ^= record.dtype.type(key)
        out = np.empty_like(record)
        cp.cuda.runtime.memcpyAsync(out.ctypes.data, buf.ptr, record.nbytes,
                                    cp.cuda.runtime.memcpyDeviceToHost, stream.ptr)
        self._open[lane].append((k, out, record, view))

    def collect(self):
        results = {}
        for lane, entries in self._open.items():
            self.streams[lane].synchronize()
            results.update((k, out) for k, out, _, _ in entries)
        self._open.clear()
        return [results[k] for k in sorted(results)]


if __name__ == "__main__":
    store = ByteStore()
    for k in range(7):
        store.submit(k, (np.arange(1 << 16) % 251).astype(np.uint8), 0x5A)
    print([int(r[:4].sum()) for r in store.collect()])
