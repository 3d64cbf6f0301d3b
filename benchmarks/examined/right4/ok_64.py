import queue
import threading

import numpy as np
from numba import cuda


@cuda.jit
def accumulate(frame, total):
    i, j = cuda.grid(2)
    if i < total.shape[0] and j < total.shape[1]:
        total[i, j] += frame[i, j]


class Cell:
    def __init__(self, shape):
        self.host = cuda.pinned_array(shape, dtype=np.float32)
        self.dev = cuda.device_array(shape, dtype=np.float32)
        self.copied = cuda.event(timing=False)
        self.fresh = True

    def settle(self):
        if not self.fresh:
            self.copied.synchronize()
        self.fresh = False


class Reader(threading.Thread):
    def __init__(self, produce, count, idle, full):
        super().__init__(daemon=True)
        self.produce, self.count = produce, count
        self.idle, self.full = idle, full

    def run(self):
        cuda.current_context()
        for i in range(self.count):
            cell = self.idle.get()
            cell.settle()
            self.produce(i, cell.host)
            self.full.put(cell)
        self.full.put(None)


class Stacker:
    def __init__(self, shape, cells=4):
        self.stream = cuda.stream()
        self.total = cuda.to_device(np.zeros(shape, np.float32))
        cuda.synchronize()
        self.idle, self.full = queue.Queue(), queue.Queue()
        for _ in range(cells):
            self.idle.put(Cell(shape))
        self.grid = tuple(-(-s // 16) for s in shape)

    def run(self, produce, count):
        Reader(produce, count, self.idle, self.full).start()
        while (cell := self.full.get()) is not None:
            cell.dev.copy_to_device(cell.host, stream=self.stream)
            cell.copied.record(self.stream)
            self.idle.put(cell)
            accumulate[self.grid, (16, 16), self.stream](cell.dev, self.total)
        self.stream.synchronize()
        return self.total.copy_to_host() / count


def synth(i, out):
    out[:] = np.random.default_rng(i).random(out.shape, dtype=np.float32)


if __name__ == "__main__":
    print(Stacker((1024, 1024)).run(synth, 200).mean())
