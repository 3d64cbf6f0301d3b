"""Two-block GPU pipeline around a device-space ring with per-span events."""
import threading

import cupy as cp
import cupyx
import numpy as np

NTIME, NCHAN = 512, 1024


class Span:
    def __init__(self):
        self.data = cp.zeros((NTIME, NCHAN), dtype=cp.complex64)
        self.ready = cp.cuda.Event(disable_timing=True)
        self.free = cp.cuda.Event(disable_timing=True)


class DeviceRing:
    def __init__(self, nspan):
        self.spans = [Span() for _ in range(nspan)]
        self.head = 0
        self.tail = 0
        self.cond = threading.Condition()
        cp.cuda.Device().synchronize()

    def reserve(self, stream):
        with self.cond:
            self.cond.wait_for(lambda: self.head - self.tail < len(self.spans))
            span = self.spans[self.head % len(self.spans)]
        stream.wait_event(span.free)
        return span

    def commit(self, span, stream):
        span.ready.record(stream)
        with self.cond:
            self.head += 1
            self.cond.notify_all()

    def acquire(self, stream):
        with self.cond:
            self.cond.wait_for(lambda: self.head > self.tail)
            span = self.spans[self.tail % len(self.spans)]
        stream.wait_event(span.ready)
        return span

    def release(self, span, stream):
        span.free.record(stream)
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
            ospan = self.oring.reserve(stream)
            ospan.data.set(gulp, stream=stream)
            self.oring.commit(ospan, stream)
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
                ispan = self.iring.acquire(stream)
                power = cp.abs(ispan.data) ** 2
                self.results.append(power.mean(axis=0))
                self.iring.release(ispan, stream)
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
