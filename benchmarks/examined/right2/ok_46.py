"""Chunked power detection on a ring of CuPy slots."""
from collections import deque

import cupy as cp
import cupyx
import numpy as np


detect = cp.ElementwiseKernel(
    "complex64 z, float32 floor",
    "float32 p",
    "p = fmaxf(z.real() * z.real() + z.imag() * z.imag(), floor)",
    "detect_power",
)


class Slot:
    def __init__(self, chunk):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.host_in = cupyx.empty_pinned(chunk, dtype=np.complex64)
        self.host_out = cupyx.empty_pinned(chunk, dtype=np.float32)
        with self.stream:
            self.samples = cp.empty(chunk, dtype=cp.complex64)
            self.power = cp.empty(chunk, dtype=cp.float32)
        self.done = cp.cuda.Event(block=True, disable_timing=True)

    def launch(self, chunk):
        self.host_in[...] = chunk
        with self.stream:
            self.samples.set(self.host_in, stream=self.stream)
            detect(self.samples, np.float32(1e-6), self.power)
            self.power.get(stream=self.stream, out=self.host_out, blocking=False)
        self.done.record(self.stream)

    def collect(self):
        self.done.synchronize()
        return self.host_out.copy()


class PowerPipeline:
    """Yields one power spectrum per input chunk, in input order."""

    def __init__(self, chunk, depth=3):
        self.free = deque(Slot(chunk) for _ in range(depth))
        self.busy = deque()

    def _retire(self):
        slot = self.busy.popleft()
        result = slot.collect()
        self.free.append(slot)
        return result

    def run(self, chunks):
        for chunk in chunks:
            if not self.free:
                yield self._retire()
            slot = self.free.popleft()
            slot.launch(chunk)
            self.busy.append(slot)
        while self.busy:
            yield self._retire()


def main(blocks=64, chunk=1 << 16):
    rng = np.random.default_rng(7)
    source = (
        (rng.standard_normal(chunk) + 1j * rng.standard_normal(chunk)).astype(np.complex64)
        for _ in range(blocks)
    )
    total = np.zeros(chunk, dtype=np.float64)
    for power in PowerPipeline(chunk).run(source):
        total += power
    return total / blocks


if __name__ == "__main__":
    print(main()[:8])
