"""Background compression of simulation snapshots on a second stream."""
from collections import deque

import cupy as cp

quantize = cp.ElementwiseKernel(
    "float32 x, float32 scale", "int16 q", "q = (short)rintf(x * scale)", "quantize_snapshot"
)


class SnapshotCompressor:
    def __init__(self, scale=2048.0):
        self.scale = cp.float32(scale)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self._in_flight = deque()

    def submit(self, field):
        here = cp.cuda.get_current_stream()
        ready = here.record()
        self.stream.wait_event(ready)
        with self.stream:
            packed = quantize(field, self.scale)
            done = self.stream.record()
        self._in_flight.append((done, field, packed))
        return packed

    def reap(self, force=False):
        finished = []
        while self._in_flight:
            done, field, packed = self._in_flight[0]
            if force:
                done.synchronize()
            elif not done.done:
                break
            self._in_flight.popleft()
            finished.append(packed)
        return finished


def simulate(steps, n, compressor):
    u = cp.random.standard_normal((n, n), dtype=cp.float32)
    archive = []
    for step in range(steps):
        lap = cp.roll(u, 1, 0) + cp.roll(u, -1, 0) + cp.roll(u, 1, 1) + cp.roll(u, -1, 1) - 4 * u
        u = u + cp.float32(0.1) * lap
        if step % 10 == 0:
            compressor.submit(u)
        archive.extend(q.get() for q in compressor.reap())
    archive.extend(q.get() for q in compressor.reap(force=True))
    return archive


if __name__ == "__main__":
    out = simulate(2000, 4096, SnapshotCompressor())
    print(len(out), out[-1].min(), out[-1].max())
