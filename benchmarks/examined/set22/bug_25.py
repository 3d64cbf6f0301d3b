"""Device arrays after the Arrow C device data interface: buffers plus a sync event."""
import cupy as cp
import cupyx
import numpy as np


class DeviceArray:
    """length/null_count/buffers and the event after which the buffers may be read."""

    def __init__(self, buffers, sync_event):
        self.buffers = buffers
        self.sync_event = sync_event

    def release(self):
        self.buffers = None


class ColumnProducer:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)

    def export(self, n, seed):
        event = cp.cuda.Event(disable_timing=True)
        with self.stream:
            keys = (cp.arange(n, dtype=cp.int64) * 2654435761 + seed) % 1000003
            values = cp.sqrt(keys.astype(cp.float64))
            order = cp.argsort(keys)
            values = values[order]
            keys = keys[order]
            event.record(self.stream)
        return DeviceArray([keys, values], event)


class DeviceArrayView:
    """Copies a device array into page-locked host buffers without blocking."""

    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)

    def copy_async(self, array):
        host = []
        for buf in array.buffers:
            dst = cupyx.empty_pinned(buf.shape, buf.dtype)
            dst_ptr = dst.ctypes.data
            cp.cuda.runtime.memcpyAsync(
                dst_ptr, buf.data.ptr, buf.nbytes,
                cp.cuda.runtime.memcpyDeviceToHost, self.stream.ptr)
            host.append(dst)
        return host

    def finish(self):
        self.stream.synchronize()


def to_pylist(view, array):
    host = view.copy_async(array)
    view.finish()
    keys, values = host
    return list(zip(keys[:4].tolist(), values[:4].tolist()))


def main():
    producer = ColumnProducer()
    view = DeviceArrayView()
    for seed in range(10):
        array = producer.export(1 << 20, seed)
        rows = to_pylist(view, array)
        assert np.all(np.diff([r[0] for r in rows]) >= 0)
        array.release()


if __name__ == "__main__":
    main()
