"""Two-block GPU pipeline around a device-space ring."""
import threading
from contextlib import contextmanager

import cupy as cp
import cupyx
import numpy as np

NTIME, NCHAN = 512, 1024


class DeviceRing:
    """Fixed number of device spans shared by one writer and one reader."""

    def __init__(self, nspan):
        self.spans = [cp.zeros((NTIME, NCHAN), dtype=cp.complex64) for _ in range(nspan)]
        self.head = 0
        self.tail = 0
        self.cond = threading.Condition()
        cp.cuda.Device().synchronize()

    @contextmanager
    def reserve(self):
        with self.cond:
            self.cond.wait_for(lambda: self.head - self.tail < len(self.spans))
            span = self.spans[self.head % len(self.spans)]
        yield span
        with self.cond:
            self.head += 1
            self.cond.notify_all()

    @contextmanager
    def acquire(self):
        with self.cond:
            self.cond.wait_for(lambda: self.head > self.tail)
            span = self.spans[self.tail % len(self.spans)]
        yield span
        with self.cond:
            self.tail += 1
            self.cond.notify_all()


class CopyBlock(threading.Thread):
    def __init__(self, gulps, oring):
        super().__init__(name="copy")
        self.gulps = gulps
        self.oring = oring

    def run(self):
        stream = cp.cuda.Stream(non_blocking=True)
        for gulp in self.gulps:
            with self.oring.reserve() as ospan:
                ospan.set(gulp, stream=stream)
        stream.synchronize()


class CorrelateBlock(threading.Thread):
    def __init__(self, ngulp, iring):
        super().__init__(name="correlate")
        self.ngulp = ngulp
        self.iring = iring
        self.results = []

    def run(self):
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            for _ in range(self.ngulp):
                with self.iring.acquire() as ispan:
                    power = cp.abs(ispan) ** 2
                    self.results.append(power.mean(axis=0))
                    stream.synchronize()


def main(ngulp=32):
    gulps = []
    for i in range(ngulp):
        buf = cupyx.empty_pinned((NTIME, NCHAN), dtype=np.complex64)
        buf[...] = i
        gulps.append(buf)
    ring = DeviceRing(4)
    blocks = [CopyBlock(gulps, ring), CorrelateBlock(ngulp, ring)]
    for b in blocks:
        b.start()
    for b in blocks:
        b.join()
    return cp.asnumpy(cp.stack(blocks[1].results))


if __name__ == "__main__":
    print(main().shape)
