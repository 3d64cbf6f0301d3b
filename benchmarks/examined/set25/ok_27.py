"""Processing thread plus a background thread that brings results to the host."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class ResultSlot:
    def __init__(self, shape):
        self.device = cp.empty(shape, cp.float32)
        self.written = cp.cuda.Event(disable_timing=True)
        self.fetched = cp.cuda.Event(disable_timing=True)


class Fetcher(threading.Thread):
    def __init__(self, shape, free, full):
        super().__init__(daemon=True)
        self.free = free
        self.full = full
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.host = cupyx.empty_pinned(shape, np.float32)
        self.maxima = []

    def run(self):
        while True:
            slot = self.full.get()
            if slot is None:
                break
            self.stream.wait_event(slot.written)
            slot.device.get(stream=self.stream, out=self.host, blocking=False)
            slot.fetched.record(self.stream)
            self.free.put(slot)
            self.stream.synchronize()
            self.maxima.append(float(self.host.max()))


class Processor:
    def __init__(self, shape, n_slots=3):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.free, self.full = queue.Queue(), queue.Queue()
        self.fetcher = Fetcher(shape, self.free, self.full)
        slots = [ResultSlot(shape) for _ in range(n_slots)]
        cp.cuda.Device().synchronize()
        for slot in slots:
            slot.fetched.record(self.stream)
            self.free.put(slot)

    def run(self, frames):
        self.fetcher.start()
        with self.stream:
            background = cp.zeros(frames.shape[1:], cp.float32)
            for frame in frames:
                raw = cp.asarray(frame)
                background *= 0.9
                background += 0.1 * raw
                slot = self.free.get()
                self.stream.wait_event(slot.fetched)
                cp.subtract(raw, background, out=slot.device)
                slot.written.record(self.stream)
                self.full.put(slot)
        self.full.put(None)
        self.fetcher.join()
        return self.fetcher.maxima


def main():
    frames = np.random.default_rng(0).random((50, 1024, 1024), dtype=np.float32)
    print(max(Processor(frames.shape[1:]).run(frames)))


if __name__ == "__main__":
    main()
