"""Map-reduce of point-cloud covariances: map in worker threads on their own streams, reduce on one."""
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import cupy as cp
import numpy as np


@dataclass
class Partial:
    count: int
    total: cp.ndarray
    outer: cp.ndarray
    done: cp.cuda.Event
    keep: tuple


class Mapper:
    def __init__(self, device):
        self.device = device
        with device:
            self.stream = cp.cuda.Stream(non_blocking=True)

    def __call__(self, points):
        with self.device, self.stream:
            chunk = cp.asarray(points)
            total = chunk.sum(axis=0, dtype=cp.float64)
            wide = chunk.astype(cp.float64)
            outer = wide.T @ wide
            done = self.stream.record()
        return Partial(points.shape[0], total, outer, done, (chunk, wide))


class CovarianceReducer:
    def __init__(self, workers=4, device=0):
        self.device = cp.cuda.Device(device)
        self.mappers = [Mapper(self.device) for _ in range(workers)]
        self.pools = [ThreadPoolExecutor(max_workers=1) for _ in range(workers)]
        with self.device:
            self.stream = cp.cuda.Stream(non_blocking=True)

    def _submit(self, clouds):
        futures = []
        for k, cloud in enumerate(clouds):
            worker = k % len(self.mappers)
            futures.append(self.pools[worker].submit(self.mappers[worker], cloud))
        return futures

    def reduce(self, clouds):
        count, used = 0, []
        futures = self._submit(clouds)
        with self.device, self.stream:
            total = cp.zeros(3)
            outer = cp.zeros((3, 3))
            for future in futures:
                partial = future.result()
                self.stream.wait_event(partial.done)
                total += partial.total
                outer += partial.outer
                count += partial.count
                used.append(partial)
            mean = total / count
            cov = outer / count - mean[:, None] * mean[None, :]
            host_mean = mean.get(stream=self.stream)
            host_cov = cov.get(stream=self.stream)
        used.clear()
        return host_mean, host_cov

    def close(self):
        for pool in self.pools:
            pool.shutdown()


def main():
    rng = np.random.default_rng(30)
    clouds = [rng.normal(size=(200_000, 3)).astype(np.float32) for _ in range(32)]
    reducer = CovarianceReducer()
    for _ in range(5):
        mean, cov = reducer.reduce(clouds)
    reducer.close()
    print(mean)
    print(np.linalg.eigvalsh(cov))


if __name__ == "__main__":
    main()
