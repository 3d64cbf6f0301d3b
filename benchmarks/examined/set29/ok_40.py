"""Asynchronous uploads from one-shot pinned allocations. The completion
callback only queues the allocation; a reaper thread drops it later, because
callbacks must not call into CUDA."""
import queue
import threading

import cupy as cp
import numpy as np


class Reaper(threading.Thread):
    def __init__(self):
        super().__init__(daemon=True)
        self.inbox = queue.SimpleQueue()
        self.reaped = 0

    def run(self):
        while True:
            item = self.inbox.get()
            if item is None:
                return
            del item
            self.reaped += 1


class Uploader:
    def __init__(self, stream, reaper):
        self.stream, self.reaper = stream, reaper
        self.outstanding = {}
        self.serial = 0
        self.lock = threading.Lock()

    def _completed(self, serial):
        with self.lock:
            mem = self.outstanding.pop(serial)
        self.reaper.inbox.put(mem)

    def upload(self, values, dst):
        mem = cp.cuda.alloc_pinned_memory(values.nbytes)
        np.frombuffer(mem, dtype=values.dtype, count=values.size)[:] = values.ravel()
        with self.lock:
            serial = self.serial
            self.serial += 1
            self.outstanding[serial] = mem
        cp.cuda.runtime.memcpyAsync(dst.data.ptr, mem.ptr, values.nbytes,
                                    cp.cuda.runtime.memcpyHostToDevice, self.stream.ptr)
        self.stream.launch_host_func(self._completed, serial)


class RunningCovariance:
    def __init__(self, dim, rows):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.reaper = Reaper()
        self.reaper.start()
        self.uploader = Uploader(self.stream, self.reaper)
        with self.stream:
            self.x = cp.empty((rows, dim), dtype=cp.float32)
            self.cov = cp.zeros((dim, dim), dtype=cp.float32)
        self.n = 0

    def update(self, block):
        self.uploader.upload(block, self.x)
        with self.stream:
            self.cov += self.x.T @ self.x
        self.n += block.shape[0]

    def finish(self):
        out = self.cov.get(stream=self.stream) / self.n
        self.reaper.inbox.put(None)
        self.reaper.join()
        return out


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    acc = RunningCovariance(256, 8192)
    for _ in range(40):
        acc.update(rng.standard_normal((8192, 256), dtype=np.float32))
    print(np.diag(acc.finish())[:4])
