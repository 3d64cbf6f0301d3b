"""Device pages leased from a small cache; a lease returns its page when it is collected."""
import weakref

import cupy as cp
import numpy as np

PAGE = 1 << 22


class PageCache:
    def __init__(self, pages):
        self._pages = [cp.empty(PAGE, cp.uint8) for _ in range(pages)]
        self._events = {id(p): cp.cuda.Event(disable_timing=True) for p in self._pages}

    def lease(self, stream):
        page = self._pages.pop()
        stream.wait_event(self._events[id(page)])
        return Lease(self, page, stream)

    def _give_back(self, page, stream):
        self._events[id(page)].record(stream)
        self._pages.append(page)


class Lease:
    def __init__(self, cache, page, stream):
        self.array = page
        self._finalizer = weakref.finalize(self, cache._give_back, page, stream)


class Checksums:
    def __init__(self):
        self.cache = PageCache(2)
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(3)]
        self.sums = []

    def add(self, data, number):
        stream = self.streams[number % len(self.streams)]
        lease = self.cache.lease(stream)
        with stream:
            lease.array[: data.size] = cp.asarray(data)
            self.sums.append((stream, lease.array[: data.size].sum(dtype=cp.uint64)))

    def collect(self):
        out = []
        for stream, value in self.sums:
            with stream:
                out.append(int(value.get()))
        return out


def main():
    rng = np.random.default_rng(32)
    checks = Checksums()
    for number in range(30):
        checks.add(rng.integers(0, 256, PAGE - 5, dtype=np.uint8), number)
    print(checks.collect()[:3])


if __name__ == "__main__":
    main()
