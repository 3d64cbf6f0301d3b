"""Results handed to a consumer thread by a function launched into the stream."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class Notifier:
    def __init__(self, n, depth=3):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.x = cp.empty(n, dtype=cp.float32)
            self.y = cp.empty(n, dtype=cp.float32)
        self._hosts = [(cupyx.empty_pinned(n, dtype=np.float32),
                        cupyx.empty_pinned(n, dtype=np.float32)) for _ in range(depth)]
        self._spare = queue.Queue()
        for index in range(depth):
            self._spare.put(index)
        self._done = queue.Queue()
        self.results = {}
        self._thread = threading.Thread(target=self._consume, daemon=True)
        self._thread.start()

    def _arrived(self, ticket):
        self._done.put(ticket)

    def submit(self, key, values):
        index = self._spare.get()
        host_in, host_out = self._hosts[index]
        try:
            host_in[...] = values
        except ValueError:
            self._spare.put(index)
            raise
        with self.stream:
            self.x.set(host_in, stream=self.stream)
            cp.sqrt(cp.abs(self.x, out=self.y), out=self.y)
            cp.cuda.runtime.memcpyAsync(
                host_out.ctypes.data, self.y.data.ptr, self.y.nbytes,
                cp.cuda.runtime.memcpyDeviceToHost, self.stream.ptr)
            self.stream.launch_host_func(self._arrived, (key, index))

    def _consume(self):
        while True:
            ticket = self._done.get()
            if ticket is None:
                return
            key, index = ticket
            self.results[key] = float(self._hosts[index][1].sum(dtype=np.float64))
            self._spare.put(index)

    def close(self):
        self.stream.synchronize()
        self._done.put(None)
        self._thread.join()
        return self.results


def main():
    rng = np.random.default_rng(0)
    notifier = Notifier(1 << 16)
    wanted = {}
    try:
        for key in range(20):
            values = rng.standard_normal(1 << 16).astype(np.float32)
            wanted[key] = float(np.sqrt(np.abs(values)).sum(dtype=np.float64))
            notifier.submit(key, values)
    finally:
        results = notifier.close()
    for key, value in wanted.items():
        np.testing.assert_allclose(results[key], value, rtol=1e-4)


if __name__ == "__main__":
    main()
