"""Producer and consumer threads over a ring of device buffers."""
import queue
import threading

import cupy as cp


class Cell:
    def __init__(self, n):
        self.data = cp.empty(n, cp.float32)
        self.filled = cp.cuda.Event(disable_timing=True)
        self.drained = cp.cuda.Event(disable_timing=True)


class Exchange:
    def __init__(self, cells, n):
        self.empty, self.full = queue.Queue(), queue.Queue()
        for _ in range(cells):
            self.empty.put(Cell(n))

    def produce(self, stream, fn):
        cell = self.empty.get()
        stream.wait_event(cell.drained)
        with stream:
            fn(cell.data)
        cell.filled.record(stream)
        self.full.put(cell)

    def consume(self, stream, fn):
        cell = self.full.get()
        if cell is None:
            return False
        stream.wait_event(cell.filled)
        with stream:
            fn(cell.data)
        cell.drained.record(stream)
        self.empty.put(cell)
        return True


def source(ex, blocks):
    stream = cp.cuda.Stream(non_blocking=True)
    try:
        for k in range(blocks):
            ex.produce(stream, lambda a: a.fill(k))
    finally:
        ex.full.put(None)
        stream.synchronize()


class Accumulator:
    def __init__(self, n):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.total = cp.zeros(n, cp.float32)

    def add(self, block):
        self.total += block

    def value(self):
        with self.stream:
            return float(self.total.sum())


def main(blocks=50, n=1 << 20):
    ex = Exchange(3, n)
    acc = Accumulator(n)
    t = threading.Thread(target=source, args=(ex, blocks))
    t.start()
    while ex.consume(acc.stream, acc.add):
        pass
    t.join()
    return acc.value()


if __name__ == "__main__":
    print(main())
