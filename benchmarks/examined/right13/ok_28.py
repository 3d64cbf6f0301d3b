"""Results are announced by a stream host function and consumed on a worker thread."""
import queue
import threading

import cupy as cp
import numpy as np


def _announce(arg):
    box, message = arg
    box.put(message)


class HistogramService:
    def __init__(self, bins, handler, slots=3):
        self.bins = bins
        self.handler = handler
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.free = queue.Queue()
        self.landed = queue.Queue()
        self.outputs = []
        for slot in range(slots):
            memory = cp.cuda.alloc_pinned_memory(bins * 8)
            self.outputs.append(np.frombuffer(memory, np.int64, bins))
            self.free.put(slot)
        self.errors = []
        self.thread = threading.Thread(target=self._consume)
        self.thread.start()

    def _consume(self):
        while True:
            message = self.landed.get()
            if message is None:
                return
            tag, slot = message
            try:
                self.handler(tag, self.outputs[slot])
            except Exception as exc:
                self.errors.append((tag, exc))
            finally:
                self.free.put(slot)

    def submit(self, tag, values, lo, hi):
        with self.stream:
            x = cp.asarray(values, dtype=cp.float32)
            scaled = (x - lo) * (self.bins / (hi - lo))
            index = cp.clip(scaled, 0, self.bins - 1).astype(cp.int64)
            counts = cp.bincount(index.ravel(), minlength=self.bins).astype(cp.int64)
            slot = self.free.get()
            counts.get(stream=self.stream, out=self.outputs[slot], blocking=False)
            self.stream.launch_host_func(_announce, (self.landed, (tag, slot)))

    def close(self):
        self.stream.synchronize()
        self.landed.put(None)
        self.thread.join()
        if self.errors:
            tag, exc = self.errors[0]
            raise RuntimeError(f"handler failed for {tag!r}") from exc


def main():
    peaks = {}

    def handler(tag, counts):
        peaks[tag] = (int(counts.argmax()), int(counts.sum()))

    service = HistogramService(64, handler)
    rng = np.random.default_rng(3)
    try:
        for i in range(40):
            service.submit(i, rng.normal(i / 40, 1, 100_000), -4, 4)
    finally:
        service.close()
    for tag in sorted(peaks):
        print(tag, *peaks[tag])


if __name__ == "__main__":
    main()
