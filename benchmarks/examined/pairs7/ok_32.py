"""Acquisition loop: a host function hands upload pages back to the digitizer thread."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np

PAGE = 1 << 20


class Digitizer(threading.Thread):
    def __init__(self, free, full, records):
        super().__init__(daemon=True)
        self.free, self.full, self.records = free, full, records

    def run(self):
        rng = np.random.default_rng(46)
        for _ in range(self.records):
            page = self.free.get()
            page[:] = rng.integers(-2048, 2048, PAGE, dtype=np.int16)
            self.full.put(page)
        self.full.put(None)


class PulseCounter:
    def __init__(self, pages=4):
        self.free, self.full = queue.Queue(), queue.Queue()
        for _ in range(pages):
            self.free.put(cupyx.empty_pinned(PAGE, np.int16))
        self.copy = cp.cuda.Stream(non_blocking=True)
        self.count = cp.cuda.Stream(non_blocking=True)
        with self.count:
            self.pulses = cp.zeros((), cp.int64)

    def run(self, records):
        Digitizer(self.free, self.full, records).start()
        while (page := self.full.get()) is not None:
            with self.copy:
                record = cp.empty(PAGE, cp.int16)
                record.set(page, stream=self.copy)
                self.copy.launch_host_func(self.free.put, page)
            self.count.wait_event(self.copy.record())
            with self.count:
                above = record > 2000
                self.pulses += (above[1:] & ~above[:-1]).sum()
            self.copy.wait_event(self.count.record())
        with self.count:
            return int(self.pulses.get())


if __name__ == "__main__":
    print(PulseCounter().run(200))
