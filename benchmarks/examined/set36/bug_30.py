"""Host outfeed for a Numba simulation: snapshots are copied out while the next steps run."""
import math
import queue
import threading

import numpy as np
from numba import cuda


@cuda.jit
def relax(src, dst):
    i, j = cuda.grid(2)
    n, m = src.shape
    if 0 < i < n - 1 and 0 < j < m - 1:
        dst[i, j] = 0.25 * (src[i - 1, j] + src[i + 1, j] + src[i, j - 1] + src[i, j + 1])


@cuda.jit
def render(field, image, low, high):
    i, j = cuda.grid(2)
    if i < field.shape[0] and j < field.shape[1]:
        v = (field[i, j] - low) / (high - low)
        image[i, j] = min(255.0, max(0.0, v * 255.0))


class Outfeed:
    """Owns the copy stream and a ring of pinned frames."""

    def __init__(self, shape, depth=3):
        self.stream = cuda.stream()
        self.images = [cuda.device_array(shape, dtype=np.uint8) for _ in range(depth)]
        self.frames = [cuda.pinned_array(shape, dtype=np.uint8) for _ in range(depth)]
        self.copied = [cuda.event(timing=False) for _ in range(depth)]
        self.idle = queue.Queue()
        for slot in range(depth):
            self.idle.put(slot)

    def acquire(self):
        return self.idle.get()

    def release(self, slot):
        self.idle.put(slot)

    def emit(self, slot):
        self.images[slot].copy_to_host(self.frames[slot], stream=self.stream)
        self.copied[slot].record(self.stream)

    def wait(self, slot):
        self.copied[slot].synchronize()
        return self.frames[slot]


class Simulation:
    def __init__(self, n=4096, outfeed_depth=3):
        self.main = cuda.stream()
        host = np.zeros((n, n), dtype=np.float32)
        host[0, :] = 100.0
        self.a = cuda.to_device(host)
        self.b = cuda.to_device(host)
        self.outfeed = Outfeed((n, n), outfeed_depth)
        self.threads = (16, 16)
        self.blocks = (math.ceil(n / 16), math.ceil(n / 16))
        cuda.synchronize()

    def advance(self, steps):
        for _ in range(steps):
            relax[self.blocks, self.threads, self.main](self.a, self.b)
            self.a, self.b = self.b, self.a

    def snapshot(self):
        slot = self.outfeed.acquire()
        render[self.blocks, self.threads, self.main](self.a, self.outfeed.images[slot], 0.0, 100.0)
        self.outfeed.emit(slot)
        return slot


class Writer(threading.Thread):
    def __init__(self, outfeed: Outfeed, jobs: "queue.Queue"):
        super().__init__()
        self.outfeed = outfeed
        self.jobs = jobs
        self.means = []

    def run(self):
        while True:
            slot = self.jobs.get()
            if slot is None:
                return
            frame = self.outfeed.wait(slot)
            self.means.append(float(frame.mean()))
            self.outfeed.release(slot)


def main():
    sim = Simulation()
    jobs: "queue.Queue" = queue.Queue()
    writer = Writer(sim.outfeed, jobs)
    writer.start()
    for _ in range(50):
        sim.advance(20)
        jobs.put(sim.snapshot())
    jobs.put(None)
    writer.join()
    cuda.synchronize()
    print(writer.means[-1])


if __name__ == "__main__":
    main()
