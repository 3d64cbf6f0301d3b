"""Pulsar backend: packets gathered by a thread into pinned blocks, dedispersed on the GPU."""
import queue
import threading
import numpy as np
import cupy as cp
import cupyx


class PacketThread(threading.Thread):
    def __init__(self, shape, blocks, depth):
        super().__init__(daemon=True)
        self.shape, self.blocks = shape, blocks
        self.empty, self.filled = queue.Queue(), queue.Queue()
        for _ in range(depth):
            self.empty.put(cupyx.empty_pinned(shape, dtype=np.float32))

    def run(self):
        rng = np.random.default_rng(5)
        for _ in range(self.blocks):
            block = self.empty.get()
            block[...] = rng.exponential(size=self.shape)
            self.filled.put(block)
        self.filled.put(None)

    def __iter__(self):
        while True:
            block = self.filled.get()
            if block is None:
                return
            yield block
            self.empty.put(block)


class Dedisperser:
    def __init__(self, channels, samples, dm_trials):
        self.h2d = cp.cuda.Stream(non_blocking=True)
        self.work = cp.cuda.Stream(non_blocking=True)
        self.dev = [cp.empty((channels, samples), cp.float32) for _ in range(2)]
        self.read = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        self.there = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        f = cp.linspace(1.2, 1.6, channels)
        self.delays = (cp.arange(dm_trials)[:, None] * (f ** -2 - 1.6 ** -2) * 40).astype(cp.int32)
        self.best = cp.zeros(dm_trials, cp.float32)
        self.delays_host = self.delays.get()
        self.n = 0

    def push(self, block):
        i = self.n % 2
        self.h2d.wait_event(self.read[i])
        self.dev[i].set(block, stream=self.h2d)
        self.there[i].record(self.h2d)
        self.work.wait_event(self.there[i])
        with self.work:
            for t, row in enumerate(self.delays_host):
                series = sum(cp.roll(self.dev[i][c], -int(row[c])) for c in range(0, len(row), 16))
                self.best[t] = cp.maximum(self.best[t], series.max())
            self.read[i].record(self.work)
        self.n += 1


def main(channels=256, samples=1 << 15):
    packets = PacketThread((channels, samples), 60, depth=3)
    dedisperser = Dedisperser(channels, samples, 16)
    packets.start()
    for block in packets:
        dedisperser.push(block)
    dedisperser.work.synchronize()
    print(int(dedisperser.best.argmax()))


if __name__ == "__main__":
    main()
