"""Background thread that writes simulation snapshots while the solver goes on."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class SnapshotWriter(threading.Thread):
    def __init__(self, shape):
        super().__init__(daemon=True)
        self.inbox = queue.Queue(maxsize=1)
        self.shape = shape
        self.snapshots = []

    def run(self):
        stream = cp.cuda.Stream(non_blocking=True)
        host = cupyx.empty_pinned(self.shape, np.float32)
        while (job := self.inbox.get()) is not None:
            step, field, ready, taken = job
            with stream:
                stream.wait_event(ready)
                field.get(stream=stream, out=host, blocking=False)
                stream.synchronize()
            taken.set()
            self.snapshots.append((step, host.copy()))

    def close(self):
        self.inbox.put(None)
        self.join()


class WaveSolver:
    def __init__(self, n, writer):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.writer = writer
        self.taken = threading.Event()
        self.taken.set()
        with self.stream:
            self.u = cp.zeros((n, n), cp.float32)
            self.v = cp.zeros((n, n), cp.float32)
            self.shot = cp.empty((n, n), cp.float32)
            self.u[n // 2, n // 2] = 1.0

    def advance(self, dt=0.1):
        with self.stream:
            lap = -4.0 * self.u
            for axis in (0, 1):
                lap += cp.roll(self.u, 1, axis) + cp.roll(self.u, -1, axis)
            self.v += dt * lap
            self.u += dt * self.v

    def snapshot(self, step):
        self.taken.wait()
        self.taken.clear()
        with self.stream:
            cp.copyto(self.shot, self.u)
            ready = self.stream.record()
        self.writer.inbox.put((step, self.shot, ready, self.taken))


def main(steps=400, every=20, n=1024):
    writer = SnapshotWriter((n, n))
    writer.start()
    solver = WaveSolver(n, writer)
    for step in range(steps):
        solver.advance()
        if step % every == 0:
            solver.snapshot(step)
    writer.close()
    print([(s, float(a.max())) for s, a in writer.snapshots][-3:])


if __name__ == "__main__":
    main()
