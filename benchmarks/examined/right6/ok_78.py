import cupy as cp
import numpy as np


class LibraryHandle:
    """Mimics a C library handle with its own stream, cupy follows it while open."""

    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self._previous = None

    def open(self):
        self._previous = cp.cuda.get_current_stream()
        self.stream.wait_event(self._previous.record())
        self.stream.use()
        return self

    def close(self):
        done = self.stream.record()
        self._previous.use()
        self._previous.wait_event(done)


def cholesky_update(a, rank, rounds):
    handle = LibraryHandle()
    n = a.shape[0]
    u = cp.ones((n, rank), a.dtype) / n
    handle.open()
    try:
        for _ in range(rounds):
            a += u @ u.T
            factor = cp.linalg.cholesky(a)
            u *= cp.float64(0.9)
        logdet = 2.0 * cp.log(cp.diagonal(factor)).sum()
        value = float(logdet)
    finally:
        handle.close()
    return value, a.trace()


if __name__ == "__main__":
    matrix = cp.eye(128) * 3.0
    for k in range(3):
        logdet, trace = cholesky_update(matrix, 4, 5)
        print(k, round(logdet, 4), round(float(trace), 4))
        matrix *= np.float64(0.5)
        matrix += cp.eye(128)
