"""Spectra are copied back and written by a thread that stream callbacks feed."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class SpectrumWriter(threading.Thread):
    def __init__(self, path, free):
        super().__init__(daemon=True)
        self.path = path
        self.free = free
        self.inbox = queue.Queue()

    def run(self):
        with open(self.path, "wb") as f:
            while True:
                slot = self.inbox.get()
                if slot is None:
                    return
                slot.host.tofile(f)
                self.free.put(slot)


class OutputSlot:
    def __init__(self, channels):
        self.dev = cp.empty(channels, dtype=cp.float32)
        self.host = cupyx.empty_pinned(channels, dtype=np.float32)


class Spectrometer:
    def __init__(self, path, channels, n_slots=4):
        self.channels = channels
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.free = queue.Queue()
        for _ in range(n_slots):
            self.free.put(OutputSlot(channels))
        self.writer = SpectrumWriter(path, self.free)
        self.writer.start()
        with self.stream:
            self.window = cp.hanning(2 * channels).astype(cp.float32)

    def _finished(self, slot):
        self.writer.inbox.put(slot)

    def process(self, voltages):
        slot = self.free.get()
        with self.stream:
            x = cp.asarray(voltages).reshape(-1, 2 * self.channels)
            spec = cp.fft.rfft(x * self.window, axis=1)[:, 1:]
            cp.mean(cp.abs(spec) ** 2, axis=0, out=slot.dev)
            slot.dev.get(stream=self.stream, out=slot.host, blocking=False)
            self.stream.launch_host_func(self._finished, slot)

    def close(self):
        self.stream.synchronize()
        self.writer.inbox.put(None)
        self.writer.join()


def main():
    spectrometer = Spectrometer("spectra.bin", 4096)
    rng = np.random.default_rng(3)
    for _ in range(128):
        spectrometer.process(rng.standard_normal(1 << 20, dtype=np.float32))
    spectrometer.close()


if __name__ == "__main__":
    main()
