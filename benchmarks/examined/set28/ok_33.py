"""Replay of a captured filter chain; results reach a consumer thread through host functions."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np

DEPTH = 2


class GraphedFilter:
    def __init__(self, shape, taps):
        self.shape = shape
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.host_in = [cupyx.empty_pinned(shape, dtype=np.float32) for _ in range(DEPTH)]
        self.host_out = [cupyx.empty_pinned(shape, dtype=np.float32) for _ in range(DEPTH)]
        self.free = [threading.Semaphore(1) for _ in range(DEPTH)]
        self.ready = queue.Queue()
        with self.stream:
            self.static_in = cp.zeros(shape, dtype=cp.float32)
            self.work = cp.empty_like(self.static_in)
            self.static_out = cp.empty_like(self.static_in)
            self.taps = [np.float32(t) for t in taps]
            self._chain()
        self.stream.synchronize()
        with self.stream:
            self.stream.begin_capture()
            self._chain()
            self.graph = self.stream.end_capture()

    def _chain(self):
        cp.multiply(self.static_in, self.taps[0], out=self.static_out)
        for tap in self.taps[1:]:
            cp.multiply(self.static_in, tap, out=self.work)
            cp.add(self.static_out, self.work, out=self.static_out)
            cp.tanh(self.static_out, out=self.static_out)

    def _notify(self, item):
        self.ready.put(item)

    def submit(self, index, frame):
        slot = index % DEPTH
        self.free[slot].acquire()
        self.host_in[slot][...] = frame
        self.static_in.set(self.host_in[slot], stream=self.stream)
        self.graph.launch(stream=self.stream)
        self.static_out.get(stream=self.stream, out=self.host_out[slot], blocking=False)
        self.stream.launch_host_func(self._notify, (index, slot))

    def consume(self, handle):
        while True:
            item = self.ready.get()
            if item is None:
                return
            index, slot = item
            handle(index, self.host_out[slot])
            self.free[slot].release()

    def close(self):
        self.stream.synchronize()
        self.ready.put(None)


def main():
    chain = GraphedFilter((1024, 1024), taps=(0.5, 0.25, 0.125, 0.0625))
    sums = {}

    def handle(index, image):
        sums[index] = float(image.sum())

    consumer = threading.Thread(target=chain.consume, args=(handle,))
    consumer.start()
    rng = np.random.default_rng(4)
    for index in range(64):
        chain.submit(index, rng.random(chain.shape, dtype=np.float32))
    chain.close()
    consumer.join()
    print(len(sums), sums[63])


if __name__ == "__main__":
    main()
