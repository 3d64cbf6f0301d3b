"""Evaluate a linear probe over host batches with uploads on a copy stream."""
import cupy as cp
import numpy as np


class BatchSource:
    def __init__(self, batches, rows, cols, seed=0):
        self.rng = np.random.default_rng(seed)
        self.batches = batches
        self.shape = (rows, cols)

    def __iter__(self):
        for _ in range(self.batches):
            yield self.rng.standard_normal(self.shape, dtype=np.float32)


def to_device(batch, stream):
    mem = cp.cuda.alloc_pinned_memory(batch.nbytes)
    staged = np.frombuffer(mem, batch.dtype, batch.size).reshape(batch.shape)
    staged[...] = batch
    with stream:
        out = cp.empty(batch.shape, batch.dtype)
        out.set(staged, stream=stream)
    return out


class Probe:
    def __init__(self, cols, classes):
        self.copy = cp.cuda.Stream(non_blocking=True)
        self.math = cp.cuda.Stream(non_blocking=True)
        with self.math:
            self.weight = cp.random.standard_normal((cols, classes), dtype=cp.float32)
            self.hits = cp.zeros(classes, cp.int64)
        self.math.synchronize()

    def run(self, source):
        alive = []
        for batch in source:
            x = to_device(batch, self.copy)
            ready = self.copy.record()
            self.math.wait_event(ready)
            with self.math:
                pred = (x @ self.weight).argmax(axis=1)
                self.hits += cp.bincount(pred, minlength=self.hits.size)
            alive.append(x)
        self.math.synchronize()
        alive.clear()
        with self.math:
            return self.hits.get(stream=self.math)


def main(rows=8192, cols=1024, classes=32, batches=12):
    probe = Probe(cols, classes)
    hist = probe.run(BatchSource(batches, rows, cols))
    probe.math.synchronize()
    print("rows seen", int(hist.sum()), "of", rows * batches)
    weight = probe.weight.get()
    expect = np.zeros(classes, np.int64)
    for batch in BatchSource(batches, rows, cols):
        expect += np.bincount((batch @ weight).argmax(axis=1), minlength=classes)
    print("max deviation", int(np.abs(hist - expect).max()))


if __name__ == "__main__":
    main()
