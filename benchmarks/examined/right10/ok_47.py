"""Stream-ordered allocations: each job allocates, computes and frees on its own stream."""
import cupy as cp
import numpy as np


class Job:
    def __init__(self, seed: int):
        self.rng = np.random.default_rng(seed)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.partial = None

    def step(self, n: int):
        rows = self.rng.standard_normal((n, 64)).astype(np.float32)
        with self.stream:
            x = cp.asarray(rows)
            x -= x.mean(axis=0)
            cov = x.T @ x / n
            self.partial = cov if self.partial is None else self.partial + cov
            del x, cov

    def result(self) -> np.ndarray:
        with self.stream:
            host = cp.asnumpy(self.partial, stream=self.stream)
            self.stream.synchronize()
            self.partial = None
        return host


def main():
    pool = cp.cuda.MemoryAsyncPool()
    jobs = [Job(k) for k in range(4)]
    with cp.cuda.using_allocator(pool.malloc):
        for n in (1000, 5000, 2500, 8000):
            for job in jobs:
                job.step(n)
        total = sum(job.result() for job in jobs)
    print(np.linalg.eigvalsh(total / len(jobs))[-3:])


if __name__ == "__main__":
    main()
