"""Worker threads on the per-thread default stream; parents merge finished partials."""
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import numpy as np

PTDS = cp.cuda.Stream.ptds


def segment_stats(chunk):
    with PTDS:
        x = cp.asarray(chunk)
        centred = x - x.mean()
        stats = cp.stack([x.sum(), (centred ** 2).sum(), cp.abs(centred).max()])
        PTDS.synchronize()
        return stats.get()


def segment_image(chunk, bins):
    with PTDS:
        x = cp.asarray(chunk)
        hist = cp.histogram(x, bins=bins, range=(0, 1))[0]
        PTDS.synchronize()
    return hist


def analyse(data, parts=8, workers=4):
    chunks = np.array_split(data, parts)
    with ThreadPoolExecutor(workers) as pool:
        stats = list(pool.map(segment_stats, chunks))
        hists = list(pool.map(lambda c: segment_image(c, 32), chunks))
    total = cp.zeros(32, cp.int64)
    for h in hists:
        total += h
    return np.stack(stats), cp.asnumpy(total)


if __name__ == "__main__":
    s, h = analyse(np.random.rand(1 << 20))
    print(s.shape, h.sum())
