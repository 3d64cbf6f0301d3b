"""Streaming spectra to a writer thread through host callbacks."""
import queue
import threading
from typing import List

import cupy as cp
import cupyx
import numpy as np


class Slot:
    def __init__(self, index: int, bins: int):
        self.index = index
        self.host = cupyx.zeros_pinned(bins, dtype=np.float32)


class SpectrumWriter(threading.Thread):
    """Takes filled slots from a queue and gives them back when consumed."""

    def __init__(self, slots: List[Slot]):
        super().__init__(daemon=True)
        self.slots = slots
        self.filled: "queue.SimpleQueue" = queue.SimpleQueue()
        self.free: "queue.SimpleQueue" = queue.SimpleQueue()
        for slot in slots:
            self.free.put(slot)
        self.average = np.zeros_like(slots[0].host)
        self.count = 0

    def run(self) -> None:
        while True:
            index = self.filled.get()
            if index < 0:
                return
            slot = self.slots[index]
            self.average += slot.host
            self.count += 1
            self.free.put(slot)


class Spectrometer:
    def __init__(self, bins: int = 1 << 20, depth: int = 4):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.slots = [Slot(i, bins) for i in range(depth)]
        self.writer = SpectrumWriter(self.slots)
        self.writer.start()
        with self.stream:
            self.window = cp.hanning(2 * bins).astype(cp.float32)
            self.power = cp.zeros(bins, dtype=cp.float32)

    def _deliver(self, index: int) -> None:
        self.writer.filled.put(index)

    def process(self, samples: np.ndarray) -> None:
        slot = self.writer.free.get()
        with self.stream:
            x = cp.asarray(samples) * self.window
            spec = cp.fft.rfft(x)[:-1]
            self.power[...] = (spec.real**2 + spec.imag**2).astype(cp.float32)
            self.power.get(stream=self.stream, out=slot.host, blocking=False)
            self.stream.launch_host_func(self._deliver, slot.index)

    def close(self) -> np.ndarray:
        self.stream.synchronize()
        self.writer.filled.put(-1)
        self.writer.join()
        return self.writer.average / max(self.writer.count, 1)


def main(blocks: int = 200, bins: int = 1 << 18) -> None:
    meter = Spectrometer(bins)
    rng = np.random.default_rng(0)
    for _ in range(blocks):
        meter.process(rng.standard_normal(2 * bins).astype(np.float32))
    average = meter.close()
    print(average.argmax(), float(average.max()))


if __name__ == "__main__":
    main()
