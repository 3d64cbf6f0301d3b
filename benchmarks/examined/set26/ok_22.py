"""A shared pool of CUDA streams handed round-robin to worker threads."""
import threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import cupy as cp


class StreamPool:
    def __init__(self, num_streams=8):
        self._streams = [cp.cuda.Stream(non_blocking=True)
                         for _ in range(num_streams)]
        self._lock = threading.Lock()
        self._next = 0

    def get_next_stream(self):
        with self._lock:
            s = self._streams[self._next]
            self._next = (self._next + 1) % len(self._streams)
        return s


class CudaScheduler:
    def __init__(self, pool, max_workers=4):
        self.pool = pool
        self.executor = ThreadPoolExecutor(max_workers)

    def then_on_host(self, fn, *args):
        stream = self.pool.get_next_stream()
        return self.executor.submit(self._run, stream, fn, args)

    @staticmethod
    def _run(stream, fn, args):
        with stream:
            result = fn(*args)
            host = cp.asnumpy(result, stream=stream)
            stream.synchronize()
        return host

    def shutdown(self):
        self.executor.shutdown()


def cholesky_tile(seed, n):
    rng = np.random.default_rng(seed)
    a = cp.asarray(rng.standard_normal((n, n)))
    spd = a @ a.T + n * cp.eye(n)
    return cp.linalg.cholesky(spd)


def main():
    sched = CudaScheduler(StreamPool())
    futures = [sched.then_on_host(cholesky_tile, s, 256) for s in range(32)]
    total = 0.0
    for f in futures:
        total += float(np.trace(f.result()))
    sched.shutdown()
    print(total)


if __name__ == "__main__":
    main()
