"""Fan-out aggregation over RMM scratch buffers that belong to one owning stream."""
from contextlib import contextmanager

import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream


class Scratch:
    """Read-only device copy of an array, allocated and freed on its owner's stream."""

    def __init__(self, owner, owner_rmm, values):
        self.owner = owner
        self.buffer = rmm.DeviceBuffer(size=values.size * 4, stream=owner_rmm)
        self.count = values.size
        self.users = {}
        self._view().set(values, stream=owner)
        self.filled = owner.record()

    def _view(self):
        mem = cp.cuda.UnownedMemory(self.buffer.ptr, self.buffer.size, None)
        return cp.ndarray(self.count, np.float32, cp.cuda.MemoryPointer(mem, 0))

    def read_on(self, stream):
        stream.wait_event(self.filled)
        self.users[stream.ptr] = stream
        return self._view()

    def close(self):
        for stream in self.users.values():
            self.owner.wait_event(stream.record())
        self.users.clear()
        self.buffer = None


class FanOut:
    def __init__(self, workers=3):
        self.owner = cp.cuda.Stream(non_blocking=True)
        self.owner_rmm = Stream(self.owner)
        self.workers = [cp.cuda.Stream(non_blocking=True) for _ in range(workers)]

    @contextmanager
    def scratch(self, values):
        block = Scratch(self.owner, self.owner_rmm, values)
        try:
            yield block
        finally:
            block.close()

    def moments(self, values):
        """values: float32 host array; returns the first raw moments."""
        results = []
        with self.scratch(values) as block:
            for power, stream in enumerate(self.workers, start=1):
                with stream:
                    view = block.read_on(stream)
                    results.append((stream, cp.mean(view ** power)))
        return [float(m.get(stream=s)) for s, m in results]


def main(rounds=20, count=1 << 22):
    rmm.mr.set_current_device_resource(rmm.mr.CudaAsyncMemoryResource())
    fan = FanOut()
    rng = np.random.default_rng(5)
    table = []
    for _ in range(rounds):
        table.append(fan.moments(rng.random(count, dtype=np.float32)))
    return np.asarray(table).mean(axis=0)


if __name__ == "__main__":
    print(main())
