"""A pool of threads that each own a stream and return host arrays (CuPy)."""
import threading
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import numpy as np


class StreamPool:
    def __init__(self, workers=4, device=0):
        self.device = device
        self.local = threading.local()
        self.executor = ThreadPoolExecutor(workers, initializer=self._begin)

    def _begin(self):
        cp.cuda.Device(self.device).use()
        self.local.stream = cp.cuda.Stream(non_blocking=True)

    def _task(self, fn, arrays):
        stream = self.local.stream
        try:
            with stream:
                inputs = [cp.asarray(a) for a in arrays]
                output = fn(*inputs)
                host = cp.asnumpy(output, stream=stream)
        finally:
            stream.synchronize()
        return host

    def submit(self, fn, *arrays):
        copies = [np.array(a, copy=True) for a in arrays]
        return self.executor.submit(self._task, fn, copies)

    def close(self):
        self.executor.shutdown(wait=True)


def whiten(x):
    centred = x - x.mean(axis=0)
    cov = centred.T @ centred / max(x.shape[0] - 1, 1)
    values, vectors = cp.linalg.eigh(cov)
    scale = 1.0 / cp.sqrt(cp.maximum(values, 1e-8))
    return (centred @ vectors) * scale


def whiten_all(groups):
    pool = StreamPool()
    try:
        futures = [pool.submit(whiten, g) for g in groups]
        results = []
        for group, future in zip(groups, futures):
            try:
                results.append(future.result())
            except np.linalg.LinAlgError:
                results.append(np.zeros_like(group))
        return results
    finally:
        pool.close()
