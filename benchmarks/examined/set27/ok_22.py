"""Asynchronous host-to-device uploads through a pool of page-locked blocks."""
import collections
import threading

import cupy as cp
import numpy as np


class PinnedBlockPool:
    """Page-locked blocks by size class; blocks in flight are watched by an event."""

    def __init__(self):
        self._free = collections.defaultdict(list)
        self._watched = collections.deque()
        self._lock = threading.Lock()

    @staticmethod
    def _round(nbytes):
        size = 4096
        while size < nbytes:
            size *= 2
        return size

    def _reclaim(self):
        while self._watched and self._watched[0][0].done:
            _, size, block = self._watched.popleft()
            self._free[size].append(block)

    def acquire(self, nbytes):
        size = self._round(nbytes)
        with self._lock:
            self._reclaim()
            bucket = self._free[size]
            block = bucket.pop() if bucket else None
        if block is None:
            block = cp.cuda.alloc_pinned_memory(size)
        return size, block

    def watch(self, event, size, block):
        with self._lock:
            self._watched.append((event, size, block))


class Uploader:
    def __init__(self):
        self.pool = PinnedBlockPool()
        self.stream = cp.cuda.Stream(non_blocking=True)

    def to_gpu(self, array):
        size, block = self.pool.acquire(array.nbytes)
        host = np.frombuffer(block, array.dtype, array.size).reshape(array.shape)
        host[...] = array
        with self.stream:
            out = cp.empty(array.shape, array.dtype)
            out.set(host, stream=self.stream)
            ready = self.stream.record(cp.cuda.Event(disable_timing=True))
        self.pool.watch(ready, size, block)
        return out, ready


class SoftmaxRegression:
    def __init__(self, n_in, n_out, lr, stream):
        self.stream = stream
        self.lr = lr
        with stream:
            self.w = cp.zeros((n_in, n_out), dtype=cp.float32)

    def step(self, x, t):
        with self.stream:
            y = x @ self.w
            y -= y.max(axis=1, keepdims=True)
            p = cp.exp(y)
            p /= p.sum(axis=1, keepdims=True)
            p -= cp.eye(self.w.shape[1], dtype=cp.float32)[t]
            self.w -= self.lr * (x.T @ p) / x.shape[0]


def train(batches, n_in, n_out):
    uploader = Uploader()
    compute = cp.cuda.Stream(non_blocking=True)
    model = SoftmaxRegression(n_in, n_out, 0.1, compute)

    def upload(batch):
        x, x_ready = uploader.to_gpu(batch[0])
        t, t_ready = uploader.to_gpu(batch[1])
        return x, t, x_ready, t_ready

    ahead = upload(batches[0])
    for i in range(len(batches)):
        x, t, x_ready, t_ready = ahead
        ahead = upload(batches[i + 1]) if i + 1 < len(batches) else None
        compute.wait_event(x_ready)
        compute.wait_event(t_ready)
        model.step(x, t)
        used = compute.record(cp.cuda.Event(disable_timing=True))
        uploader.stream.wait_event(used)
        del x, t
    w = model.w.get(stream=compute)
    compute.synchronize()
    return w


if __name__ == "__main__":
    gen = np.random.default_rng(0)
    data = [(gen.standard_normal((4096, 784), dtype=np.float32), gen.integers(0, 10, 4096))
            for _ in range(50)]
    print(train(data, 784, 10).shape)
