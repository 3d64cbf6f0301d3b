"""Write simulation snapshots to disk with GPUDirect Storage."""
from contextlib import contextmanager

import cupy as cp
import kvikio


class ShardWriter:
    def __init__(self, path, count, dtype=cp.float32, depth=2):
        self._file = kvikio.CuFile(path, "w")
        self._bufs = [cp.empty(count, dtype) for _ in range(depth)]
        self._pending = [None] * depth
        self._step = 0
        self.bytes_written = 0

    def _drain(self, i):
        future, self._pending[i] = self._pending[i], None
        if future is not None:
            self.bytes_written += future.get()

    @contextmanager
    def snapshot(self, stream):
        i = self._step % len(self._bufs)
        self._drain(i)
        buf = self._bufs[i]
        yield buf
        stream.record().synchronize()
        self._pending[i] = self._file.pwrite(buf, file_offset=self._step * buf.nbytes)
        self._step += 1

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        try:
            for i in range(len(self._bufs)):
                self._drain(i)
        finally:
            self._file.close()


def advance(field, dt):
    lap = cp.roll(field, 1) + cp.roll(field, -1) - 2 * field
    field += dt * lap


def simulate(path, cells=1 << 20, steps=500, every=25):
    stream = cp.cuda.Stream(non_blocking=True)
    with stream, ShardWriter(path, cells) as writer:
        field = cp.random.random(cells, dtype=cp.float32)
        for step in range(steps):
            advance(field, 0.1)
            if step % every == 0:
                with writer.snapshot(stream) as buf:
                    cp.copyto(buf, field)
        stream.synchronize()
    return writer.bytes_written


if __name__ == "__main__":
    print(simulate("/tmp/field.bin"))
