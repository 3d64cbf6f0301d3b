"""Host buffer pool with asynchronous tensor reads (CuPy backend)."""
import cupy as cp
import cupyx
import numpy as np


class HostBufferPool:
    def __init__(self):
        self._free = {}

    def get(self, shape, dtype):
        key = (shape, np.dtype(dtype).str)
        bucket = self._free.setdefault(key, [])
        return bucket.pop() if bucket else cupyx.empty_pinned(shape, dtype)

    def put(self, array):
        self._free.setdefault((array.shape, array.dtype.str), []).append(array)


class HostTensor:
    def __init__(self, pool, array, event):
        self._pool = pool
        self._array = array
        self._event = event

    def numpy(self):
        self._event.synchronize()
        return self._array

    def __del__(self):
        if self._array is not None:
            self._pool.put(self._array)


class Device:
    def __init__(self):
        self.pool = HostBufferPool()
        self.read_queue = cp.cuda.Stream(non_blocking=True)
        self.compute = cp.cuda.Stream(non_blocking=True)

    def upload(self, array):
        staging = self.pool.get(array.shape, array.dtype)
        np.copyto(staging, array)
        with self.compute:
            out = cp.empty(array.shape, array.dtype)
            out.set(staging, stream=self.compute)
            done = self.compute.record()
        done.synchronize()
        self.pool.put(staging)
        return out

    def cpu(self, tensor, blocking=True):
        host = self.pool.get(tensor.shape, tensor.dtype)
        self.read_queue.wait_event(self.compute.record())
        tensor.get(stream=self.read_queue, out=host, blocking=False)
        event = self.read_queue.record()
        if blocking:
            event.synchronize()
        return HostTensor(self.pool, host, event)


def main():
    device = Device()
    rng = np.random.default_rng(0)
    base = device.upload(rng.random((1024, 4096), dtype=np.float32))
    probes = []
    for step in range(16):
        with device.compute:
            for _ in range(4):
                base = cp.sqrt(base * base + 1.0)
        keep = device.cpu(base, blocking=False)
        if step % 4 == 0:
            probes.append(float(keep.numpy()[0, 0]))
        del keep
        extra = device.upload(rng.random((1024, 4096), dtype=np.float32))
        with device.compute:
            base = base + extra
        device.read_queue.synchronize()
    print(probes)


if __name__ == "__main__":
    main()
