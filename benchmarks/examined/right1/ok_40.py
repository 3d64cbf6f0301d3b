"""Threaded scoring where every worker uses its own default stream."""
import queue
import threading

import numpy as np
from numba import cuda


@cuda.jit
def score(rows, weights, out):
    i = cuda.grid(1)
    if i < rows.shape[0]:
        acc = 0.0
        for j in range(rows.shape[1]):
            acc += rows[i, j] * weights[j]
        out[i] = acc


@cuda.jit
def squash(values):
    i = cuda.grid(1)
    if i < values.size:
        v = values[i]
        values[i] = v / (1.0 + abs(v))


class Worker(threading.Thread):
    def __init__(self, jobs, results, weights, max_rows):
        super().__init__()
        self.jobs, self.results = jobs, results
        self.weights = weights
        self.max_rows = max_rows

    def run(self):
        stream = cuda.per_thread_default_stream()
        out = cuda.device_array(self.max_rows, np.float64)
        pinned = cuda.pinned_array(self.max_rows, np.float64)
        while True:
            job = self.jobs.get()
            if job is None:
                return
            tag, rows = job
            n = len(rows)
            blocks = (n + 127) // 128
            dev = cuda.to_device(rows, stream=stream)
            score[blocks, 128, stream](dev, self.weights, out)
            squash[blocks, 128, stream](out[:n])
            out[:n].copy_to_host(pinned[:n], stream=stream)
            stream.synchronize()
            self.results.put((tag, pinned[:n].copy()))


def main(workers=4, jobs=64):
    rng = np.random.default_rng(0)
    weights = cuda.to_device(rng.standard_normal(64))
    cuda.synchronize()
    todo, done = queue.Queue(), queue.Queue()
    threads = [Worker(todo, done, weights, 4096) for _ in range(workers)]
    for t in threads:
        t.start()
    for tag in range(jobs):
        todo.put((tag, rng.standard_normal((1000 + tag, 64))))
    for _ in threads:
        todo.put(None)
    for t in threads:
        t.join()
    results = dict(done.get() for _ in range(jobs))
    print(len(results), results[0][:4])


if __name__ == "__main__":
    main()
