"""Host callback completes slots that a writer thread saves to disk."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class Slot:
    def __init__(self, shape):
        self.host = cupyx.empty_pinned(shape, np.float32)
        self.dev = cp.empty(shape, cp.float32)
        self.ready = threading.Event()
        self.index = -1


class SnapshotWriter(threading.Thread):
    def __init__(self, jobs, free, path):
        super().__init__()
        self.jobs, self.free, self.path = jobs, free, path
        self.sums = {}

    def run(self):
        while (slot := self.jobs.get()) is not None:
            slot.ready.wait()
            slot.ready.clear()
            np.save(f"{self.path}_{slot.index:04d}.npy", slot.host)
            self.sums[slot.index] = float(slot.host.sum())
            self.free.put(slot)


def simulate(steps, shape=(256, 256), path="/tmp/snap"):
    stream = cp.cuda.Stream(non_blocking=True)
    jobs, free = queue.Queue(), queue.Queue()
    for _ in range(2):
        free.put(Slot(shape))
    writer = SnapshotWriter(jobs, free, path)
    writer.start()
    with stream:
        field = cp.ones(shape, cp.float32)
        try:
            for step in range(steps):
                field *= 1.01
                if step % 10:
                    continue
                slot = free.get()
                slot.index = step
                cp.copyto(slot.dev, field)
                slot.dev.get(stream=stream, out=slot.host, blocking=False)
                stream.launch_host_func(threading.Event.set, slot.ready)
                jobs.put(slot)
        finally:
            jobs.put(None)
            writer.join()
            stream.synchronize()
    return writer.sums


if __name__ == "__main__":
    print(simulate(60))
