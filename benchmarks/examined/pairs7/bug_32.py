"""Streaming threshold scan: pages return to the reader through a host function."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np

SIZE = 1 << 21


def reader(free, full, blocks):
    rng = np.random.default_rng(47)
    bank = rng.standard_normal((8, SIZE), dtype=np.float32)
    for number in range(blocks):
        page = free.get()
        np.copyto(page, bank[number % len(bank)])
        full.put(page)
    full.put(None)


class ThresholdScan:
    def __init__(self, thresholds, pages=2):
        self.upload = cp.cuda.Stream(non_blocking=True)
        self.scan = cp.cuda.Stream(non_blocking=True)
        self.free, self.full = queue.Queue(), queue.Queue()
        for _ in range(pages):
            self.free.put(cupyx.empty_pinned(SIZE, np.float32))
        self.arrived = cp.cuda.Event(disable_timing=True)
        self.released = cp.cuda.Event(disable_timing=True)
        with self.scan:
            self.levels = cp.asarray(thresholds, dtype=cp.float32)
            self.counts = cp.zeros(len(thresholds), cp.int64)
            self.block = cp.empty(SIZE, cp.float32)

    def run(self, blocks):
        threading.Thread(target=reader, args=(self.free, self.full, blocks), daemon=True).start()
        while True:
            page = self.full.get()
            if page is None:
                break
            self.upload.wait_event(self.released)
            self.block.set(page, stream=self.upload)
            self.scan.launch_host_func(self.free.put, page)
            self.arrived.record(self.upload)
            self.scan.wait_event(self.arrived)
            with self.scan:
                for k in range(len(self.levels)):
                    self.counts[k] += (self.block > self.levels[k]).sum()
                self.released.record(self.scan)
        with self.scan:
            return self.counts.get()


if __name__ == "__main__":
    print(ThresholdScan([0.5, 1.0, 1.5, 2.0]).run(100))
