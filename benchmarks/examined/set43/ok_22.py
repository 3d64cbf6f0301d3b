"""Matched filter over a zero-copy ring of blocks (Numba CUDA)."""
import numpy as np
from numba import cuda


@cuda.jit
def correlate(x, taps, out):
    i = cuda.grid(1)
    if i < out.size:
        acc = 0.0
        for k in range(taps.size):
            acc += x[i + k] * taps[k]
        out[i] = acc


class Slot:
    def __init__(self, n_in, n_out):
        self.x = cuda.mapped_array(n_in, dtype=np.float32)
        self.y = cuda.mapped_array(n_out, dtype=np.float32)
        self.done = cuda.event(timing=False)
        self.busy = False
        self.tag = -1


class MatchedFilter:
    """Keeps `depth` blocks in flight; results come out in order."""

    def __init__(self, taps, block, depth=3):
        self.stream = cuda.stream()
        self.taps = cuda.to_device(np.asarray(taps, dtype=np.float32))
        self.n_out = block
        n_in = block + len(taps) - 1
        self.slots = [Slot(n_in, block) for _ in range(depth)]
        self.head = 0
        self.pending = []

    def _take(self):
        slot = self.slots[self.head]
        self.head = (self.head + 1) % len(self.slots)
        return slot

    def submit(self, tag, samples):
        slot = self._take()
        ready = None
        if slot.busy:
            ready = self.collect()
        slot.x[:] = samples
        slot.tag = tag
        slot.busy = True
        threads = 128
        correlate[(self.n_out + threads - 1) // threads, threads, self.stream](
            slot.x, self.taps, slot.y
        )
        slot.done.record(self.stream)
        self.pending.append(slot)
        return ready

    def collect(self):
        slot = self.pending.pop(0)
        slot.done.synchronize()
        slot.busy = False
        return slot.tag, np.array(slot.y, copy=True)

    def flush(self):
        while self.pending:
            yield self.collect()


class PeakLog:
    def __init__(self):
        self.rows = []

    def add(self, item):
        if item is None:
            return
        tag, y = item
        k = int(np.argmax(y))
        self.rows.append((tag, k, float(y[k])))


def blocks(count, n, taps, seed=5):
    rng = np.random.default_rng(seed)
    for t in range(count):
        x = rng.normal(0.0, 0.3, size=n).astype(np.float32)
        at = int(rng.integers(0, n - len(taps)))
        x[at:at + len(taps)] += taps
        yield t, x


def main():
    taps = np.sin(np.linspace(0.0, 12.0, 96)).astype(np.float32)
    block = 1 << 15
    filt = MatchedFilter(taps, block)
    log = PeakLog()
    for tag, x in blocks(24, block + len(taps) - 1, taps):
        log.add(filt.submit(tag, x))
    for item in filt.flush():
        log.add(item)
    for tag, k, v in log.rows:
        print(f"block {tag}: lag {k} score {v:.2f}")


if __name__ == "__main__":
    main()
