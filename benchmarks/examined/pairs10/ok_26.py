"""Phase-difference monitor: CuPy computes, a thread logs finished rows."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np

PHASE = cp.ElementwiseKernel(
    "complex64 a, complex64 b", "float32 phase", "phase = arg(a * conj(b))", "phase_difference")


class RowLogger(threading.Thread):
    def __init__(self, rows, ready, free):
        super().__init__(daemon=True)
        self.rows, self.ready, self.free = rows, ready, free
        self.stats = []

    def run(self):
        while (index := self.ready.get()) is not None:
            row = self.rows[index]
            self.stats.append((float(row.mean()), float(row.std())))
            self.free.put(index)


class PhaseMonitor:
    def __init__(self, n, depth=4):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rows = [cupyx.empty_pinned(n, dtype=np.float32) for _ in range(depth)]
        with self.stream:
            self.phase = cp.empty(n, dtype=cp.float32)
        self.ready, self.free = queue.Queue(), queue.Queue()
        for index in range(depth):
            self.free.put(index)
        self.logger = RowLogger(self.rows, self.ready, self.free)
        self.logger.start()

    def feed(self, first, second):
        index = self.free.get()
        with self.stream:
            PHASE(cp.asarray(first), cp.asarray(second), self.phase)
            self.phase.get(stream=self.stream, out=self.rows[index], blocking=False)
        self.stream.launch_host_func(self.ready.put, index)

    def close(self):
        self.stream.synchronize()
        self.ready.put(None)
        self.logger.join()
        return self.logger.stats


def noise(rng, n):
    return (rng.standard_normal(n) + 1j * rng.standard_normal(n)).astype(np.complex64)


def main(n=1 << 20, count=100):
    rng = np.random.default_rng(0)
    monitor = PhaseMonitor(n)
    for _ in range(count):
        monitor.feed(noise(rng, n), noise(rng, n))
    stats = monitor.close()
    print(len(stats), stats[-1])


if __name__ == "__main__":
    main()
