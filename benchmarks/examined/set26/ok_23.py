"""Device event wrapper and an offload buffer shared by two streams."""
import numpy as np
import cupy as cp
import cupyx


class DeviceEvent:
    """Minimal wrapper for ordering streams and the host."""

    def __init__(self):
        self._impl = cp.cuda.Event(block=True, disable_timing=True)

    def record(self, stream):
        self._impl.record(stream)

    def make_wait(self, stream):
        stream.wait_event(self._impl)

    def sync(self):
        self._impl.synchronize()


_generate = cp.ElementwiseKernel(
    'float32 e, int32 step', 'float32 out', 'out = e * (step + 1)', 'generate')


class OffloadGather:
    def __init__(self, num_tracks):
        self.main = cp.cuda.Stream(non_blocking=True)
        self.data = cp.cuda.Stream(non_blocking=True)
        with self.main:
            self.energy = cp.arange(num_tracks, dtype=cp.float32)
            self.buffer = cp.empty((num_tracks,), dtype=cp.float32)
        self.host = cupyx.empty_pinned((num_tracks,), dtype=np.float32)
        self.generated = DeviceEvent()
        self.copied = DeviceEvent()

    def step(self, i):
        self.copied.make_wait(self.main)
        with self.main:
            _generate(self.energy, np.int32(i), self.buffer)
        self.generated.record(self.main)

    def begin_flush(self):
        self.generated.make_wait(self.data)
        self.buffer.get(stream=self.data, out=self.host, blocking=False)
        self.copied.record(self.data)

    def finish_flush(self):
        self.copied.sync()
        return float(self.host.sum())


def run(num_steps=16):
    gather = OffloadGather(1 << 20)
    totals = []
    for i in range(num_steps):
        gather.step(i)
        gather.begin_flush()
        totals.append(gather.finish_flush())
    gather.main.synchronize()
    return totals


if __name__ == "__main__":
    print(run())
