import threading

import numpy as np
from numba import cuda


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] += a * x[i]


class Worker(threading.Thread):
    def __init__(self, a, x, y):
        super().__init__()
        self.a, self.x, self.y = a, x, y
        self.out = None
        self.error = None

    def run(self):
        try:
            lane = cuda.per_thread_default_stream()
            dx = cuda.to_device(self.x, stream=lane)
            dy = cuda.to_device(self.y, stream=lane)
            for _ in range(8):
                saxpy[(self.y.size + 255) // 256, 256, lane](self.a, dx, dy)
            out = np.empty_like(self.y)
            dy.copy_to_host(out, stream=lane)
            lane.synchronize()
            self.out = out
        except Exception as exc:
            self.error = exc


def run(jobs):
    cuda.current_context()
    workers = [Worker(*job) for job in jobs]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
        if w.error is not None:
            raise w.error
    return [w.out for w in workers]


if __name__ == "__main__":
    n = 1 << 18
    jobs = [(np.float32(k), np.ones(n, np.float32), np.zeros(n, np.float32)) for k in range(6)]
    print([float(o[0]) for o in run(jobs)])
