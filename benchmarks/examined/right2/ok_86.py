"""Monte Carlo estimates in worker threads with Numba."""
import queue
import threading

import numpy as np
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

THREADS, BLOCKS = 128, 64


@cuda.jit
def payoff(states, spot, strike, vol, out):
    i = cuda.grid(1)
    total = 0.0
    for _ in range(256):
        z = 0.0
        for _ in range(12):
            z += xoroshiro128p_uniform_float32(states, i)
        price = spot * (1.0 + vol * (z - 6.0))
        total += max(price - strike, 0.0)
    out[i] = total / 256.0


class Pricer(threading.Thread):
    def __init__(self, seed, tasks, results):
        super().__init__()
        self.seed = seed
        self.tasks = tasks
        self.results = results

    def run(self):
        stream = cuda.per_thread_default_stream()
        count = THREADS * BLOCKS
        states = create_xoroshiro128p_states(count, seed=self.seed, stream=stream)
        dev = cuda.device_array(count, dtype=np.float64, stream=stream)
        host = cuda.pinned_array(count, dtype=np.float64)
        while True:
            task = self.tasks.get()
            if task is None:
                break
            key, spot, strike, vol = task
            payoff[BLOCKS, THREADS, stream](states, spot, strike, vol, dev)
            dev.copy_to_host(host, stream=stream)
            stream.synchronize()
            self.results.put((key, float(host.mean())))
        stream.synchronize()


def main(workers=3, jobs=30):
    tasks, results = queue.Queue(), queue.Queue()
    threads = [Pricer(seed, tasks, results) for seed in range(1, workers + 1)]
    for t in threads:
        t.start()
    for n in range(jobs):
        tasks.put((n, 100.0, 90.0 + n, 0.2))
    for _ in threads:
        tasks.put(None)
    for t in threads:
        t.join()
    return dict(results.get() for _ in range(jobs))


if __name__ == "__main__":
    print(main()[0])
