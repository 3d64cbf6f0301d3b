"""Pinned page recycling for the asset streamer; pages come back when handles die."""
import threading

import cupy as cp
import cupyx
import numpy as np


class PageCache:
    def __init__(self, page_shape):
        self.page_shape = page_shape
        self.spare = []
        self.guard = threading.Lock()

    def acquire(self):
        with self.guard:
            if self.spare:
                return PageHandle(self, self.spare.pop())
        return PageHandle(self, cupyx.empty_pinned(self.page_shape, np.uint8))

    def recycle(self, page):
        with self.guard:
            self.spare.append(page)


class PageHandle:
    def __init__(self, cache, page):
        self.cache = cache
        self.page = page

    def __del__(self):
        self.cache.recycle(self.page)

    def fill(self, data):
        np.copyto(self.page, data)
        return self

    def send(self, target, stream):
        target.set(self.page, stream=stream)


class AssetStreamer:
    def __init__(self, page_shape, resident):
        self.cache = PageCache(page_shape)
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.atlas = cp.zeros((resident,) + page_shape, cp.uint8)

    def load(self, index, data):
        self.cache.acquire().fill(data).send(self.atlas[index], self.stream)

    def mean_levels(self):
        with self.stream:
            return cp.asnumpy(self.atlas.mean(axis=(1, 2)))


def main(pages=256, shape=(2048, 2048)):
    streamer = AssetStreamer(shape, pages)
    source = np.load("atlas.npy", mmap_mode="r")
    for i in range(pages):
        streamer.load(i, source[i])
    print(streamer.mean_levels())


if __name__ == "__main__":
    main()
