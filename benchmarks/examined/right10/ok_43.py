"""Each worker thread computes on its own per-thread default stream."""
from concurrent.futures import ThreadPoolExecutor
import threading

import cupy as cp
import numpy as np

tls = threading.local()


def rng() -> np.random.Generator:
    if not hasattr(tls, "rng"):
        tls.rng = np.random.default_rng(threading.get_ident() % (1 << 31))
    return tls.rng


def pool() -> cp.cuda.MemoryPool:
    if not hasattr(tls, "pool"):
        tls.pool = cp.cuda.MemoryPool()
    return tls.pool


def estimate(block: int, n: int) -> tuple[int, np.ndarray]:
    pts = rng().random((n, 2), dtype=np.float32)
    stream = cp.cuda.Stream.ptds
    with cp.cuda.using_allocator(pool().malloc), stream:
        d = cp.asarray(pts)
        r2 = (d * d).sum(axis=1)
        counts = cp.stack([(r2 <= lim).sum() for lim in (0.25, 0.5, 1.0)])
        host = counts.get(stream=stream)
        stream.synchronize()
    return block, host


def main():
    total = np.zeros(3, np.int64)
    n, blocks = 1 << 20, 32
    with ThreadPoolExecutor(4) as workers:
        for _, counts in workers.map(lambda b: estimate(b, n), range(blocks)):
            total += counts
    for lim, c in zip((0.25, 0.5, 1.0), total):
        print(lim, 4 * c / (n * blocks) / lim)


if __name__ == "__main__":
    main()
