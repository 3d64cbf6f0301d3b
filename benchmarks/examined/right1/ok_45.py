"""Stream statistics back to the host while the next block is computed."""
import threading

import cupy as cp
import cupyx
import numpy as np


class Readback:
    """One pinned destination that can hold a single transfer."""

    def __init__(self, shape, stream):
        self.stream = stream
        self.host = cupyx.empty_pinned(shape, np.float32)
        self._landed = threading.Event()
        self._busy = False

    @staticmethod
    def _notify(landed):
        landed.set()

    def submit(self, arr):
        if self._busy:
            raise RuntimeError("result() has not been called")
        self._busy = True
        self._landed.clear()
        arr.get(stream=self.stream, out=self.host, blocking=False)
        self.stream.launch_host_func(self._notify, self._landed)

    def result(self):
        self._landed.wait()
        self._busy = False
        return self.host.copy()


def spectra(blocks, bins):
    stream = cp.cuda.Stream(non_blocking=True)
    lanes = [Readback((bins,), stream) for _ in range(2)]
    order = []
    with stream:
        for i, block in enumerate(blocks):
            lane = lanes[i % 2]
            if lane in order:
                order.remove(lane)
                yield lane.result()
            spec = cp.abs(cp.fft.rfft(cp.asarray(block)))[:bins].astype(cp.float32)
            lane.submit(spec)
            order.append(lane)
        for lane in order:
            yield lane.result()


if __name__ == "__main__":
    rng = np.random.default_rng(5)
    source = (rng.standard_normal(8192).astype(np.float32) for _ in range(20))
    peaks = [int(s.argmax()) for s in spectra(source, 4096)]
    print(peaks)
