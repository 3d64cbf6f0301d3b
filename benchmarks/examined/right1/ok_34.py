"""Results announced to a consumer thread by host functions enqueued behind the download."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class Slot:
    def __init__(self, n):
        self.host = cupyx.empty_pinned((n,), np.float32)
        self.landed = threading.Event()
        self.vacant = threading.Event()
        self.vacant.set()
        self.tag = None


class Downloader:
    def __init__(self, n, depth=3):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.slots = [Slot(n) for _ in range(depth)]
        self.order = queue.Queue()
        self.count = 0

    @staticmethod
    def _announce(slot):
        slot.landed.set()

    def submit(self, tag, values):
        slot = self.slots[self.count % len(self.slots)]
        self.count += 1
        slot.vacant.wait()
        slot.vacant.clear()
        slot.tag = tag
        values.get(stream=self.stream, out=slot.host, blocking=False)
        self.stream.launch_host_func(self._announce, slot)
        self.order.put(slot)

    def finish(self):
        self.order.put(None)

    def __iter__(self):
        while True:
            slot = self.order.get()
            if slot is None:
                return
            slot.landed.wait()
            slot.landed.clear()
            yield slot.tag, slot.host.copy()
            slot.vacant.set()


def consume(downloader, sums):
    for tag, values in downloader:
        sums[tag] = float(values.sum())


def main(n=1 << 20, steps=64):
    downloader = Downloader(n)
    sums = {}
    consumer = threading.Thread(target=consume, args=(downloader, sums))
    consumer.start()
    with downloader.stream:
        state = cp.arange(n, dtype=cp.float32) / n
        for step in range(steps):
            state = cp.cos(state * 1.5)
            downloader.submit(step, state)
    downloader.finish()
    consumer.join()
    downloader.stream.synchronize()
    print(sums[steps - 1])


if __name__ == "__main__":
    main()
