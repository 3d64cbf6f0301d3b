"""Import of device arrays: wait on the exported event, then work on the consumer's stream."""
import cupy as cp
import cupyx


class DeviceArray:
    def __init__(self, buffers, sync_event, release):
        self.buffers = buffers
        self.sync_event = sync_event
        self._release = release

    def release(self):
        cb, self._release = self._release, None
        if cb is not None:
            cb(self)


class ScanSource:
    """Hands out a fixed number of column buffers and takes them back on release."""

    def __init__(self, n, count):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.n = n
        with self.stream:
            self.free = [cp.empty(n, cp.float32) for _ in range(count)]

    def next(self, seed):
        buf = self.free.pop()
        event = cp.cuda.Event(disable_timing=True)
        with self.stream:
            buf[...] = cp.arange(self.n, dtype=cp.float32)
            cp.multiply(buf, 1.0 / (1 + seed), out=buf)
        event.record(self.stream)
        return DeviceArray([buf], event, self._take_back)

    def _take_back(self, array):
        self.free.extend(array.buffers)
        array.buffers = None


class Importer:
    def __init__(self, n):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.host = cupyx.empty_pinned((n,), cp.float32)

    def sum_and_copy(self, array):
        if array.sync_event is not None:
            self.stream.wait_event(array.sync_event)
        (buf,) = array.buffers
        with self.stream:
            total = buf.sum(dtype=cp.float64)
            buf.get(stream=self.stream, out=self.host, blocking=False)
            result = total.get(stream=self.stream)
        self.stream.synchronize()
        tail = float(self.host[-1])
        array.release()
        return float(result), tail


def main():
    n = 1 << 20
    source = ScanSource(n, 2)
    importer = Importer(n)
    for seed in range(8):
        total, tail = importer.sum_and_copy(source.next(seed))
        assert abs(tail * (1 + seed) - (n - 1)) < 1.0
        assert total > 0


if __name__ == "__main__":
    main()
