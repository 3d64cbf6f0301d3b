"""Phase retrieval: support updates run beside the error metric (async allocator)."""
import cupy as cp
import numpy as np

SHAPE = (2048, 2048)


class Retrieval:
    def __init__(self, magnitude):
        pool = cp.cuda.MemoryAsyncPool()
        cp.cuda.set_allocator(pool.malloc)
        self.iterate = cp.cuda.Stream(non_blocking=True)
        self.metric = cp.cuda.Stream(non_blocking=True)
        with self.iterate:
            self.magnitude = cp.asarray(magnitude)
            self.guess = self.magnitude.astype(cp.complex64)
        with self.metric:
            self.errors = cp.zeros(1000, cp.float32)

    def _project(self):
        with self.iterate:
            amplitude = cp.abs(self.guess) + 1e-6
            self.guess = self.guess / amplitude * self.magnitude
            self.guess.imag *= 0.9
        return amplitude, self.iterate.record()

    def step(self, k):
        amplitude, ready = self._project()
        with self.metric:
            self.metric.wait_event(ready)
            difference = amplitude - self.magnitude
            self.errors[k] = cp.sqrt((difference * difference).mean())

    def history(self, count):
        with self.metric:
            return self.errors[:count].get()


def main(count=200):
    rng = np.random.default_rng(38)
    retrieval = Retrieval(rng.random(SHAPE, dtype=np.float32))
    for k in range(count):
        retrieval.step(k)
    print(retrieval.history(count)[-5:])


if __name__ == "__main__":
    main()
