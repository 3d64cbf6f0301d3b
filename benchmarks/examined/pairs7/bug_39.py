"""Tape reader thread and device thread that share a few pages through semaphores."""
import threading

import cupy as cp
import cupyx
import numpy as np

WORDS = 1 << 21


class PageRing:
    def __init__(self, pages=2):
        self.pages = [cupyx.empty_pinned(WORDS, np.int32) for _ in range(pages)]
        self.empty = threading.Semaphore(pages)
        self.filled = threading.Semaphore(0)


class TapeReader(threading.Thread):
    def __init__(self, ring, blocks):
        super().__init__(daemon=True)
        self.ring, self.blocks = ring, blocks

    def run(self):
        rng = np.random.default_rng(59)
        source = rng.integers(-1000, 1000, (4, WORDS), dtype=np.int32)
        for number in range(self.blocks):
            self.ring.empty.acquire()
            np.copyto(self.ring.pages[number % len(self.ring.pages)], source[number % 4])
            self.ring.filled.release()


class Accumulator:
    def __init__(self, ring):
        self.ring = ring
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.finished = cp.cuda.Event(disable_timing=True)
        with self.stream:
            self.block = cp.empty(WORDS, cp.int32)
            self.energy = cp.zeros((), cp.float64)

    def run(self, blocks):
        for number in range(blocks):
            self.ring.filled.acquire()
            page = self.ring.pages[number % len(self.ring.pages)]
            with self.stream:
                self.block.set(page, stream=self.stream)
                self.ring.empty.release()
                values = self.block.astype(cp.float64)
                self.energy += (values * values).sum()
                self.finished.record(self.stream)
            self.finished.synchronize()
        with self.stream:
            return float(self.energy)


def main(blocks=80):
    ring = PageRing()
    TapeReader(ring, blocks).start()
    print(Accumulator(ring).run(blocks))


if __name__ == "__main__":
    main()
