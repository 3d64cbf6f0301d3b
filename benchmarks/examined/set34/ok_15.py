"""Spectrometer: completed integrations are announced by the stream itself."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np


class Record:
    def __init__(self, channels):
        self.host = cupyx.zeros_pinned(channels, np.float32)
        self.number = -1


class Spectrometer:
    def __init__(self, channels=4096, records=4):
        self.channels = channels
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.free = queue.Queue()
        self.complete = queue.Queue()
        for _ in range(records):
            self.free.put(Record(channels))
        with self.stream:
            self.window = cp.hanning(2 * channels).astype(cp.float32)

    def _announce(self, record):
        self.complete.put(record)

    def integrate(self, number, samples):
        record = self.free.get()
        record.number = number
        with self.stream:
            block = cp.asarray(samples).reshape(-1, 2 * self.channels)
            spectra = cp.fft.rfft(block * self.window, axis=1)[:, : self.channels]
            power = (cp.abs(spectra) ** 2).sum(axis=0).astype(cp.float32)
            power.get(stream=self.stream, out=record.host, blocking=False)
        self.stream.launch_host_func(self._announce, record)

    def close(self):
        self.stream.synchronize()


class Writer(threading.Thread):
    def __init__(self, spectrometer, expected):
        super().__init__()
        self.spectrometer = spectrometer
        self.expected = expected
        self.rows = {}

    def run(self):
        for _ in range(self.expected):
            record = self.spectrometer.complete.get()
            self.rows[record.number] = record.host.copy()
            self.spectrometer.free.put(record)


def main(integrations=40):
    rng = np.random.default_rng(1)
    spec = Spectrometer()
    writer = Writer(spec, integrations)
    writer.start()
    for n in range(integrations):
        spec.integrate(n, rng.standard_normal(2 * spec.channels * 256).astype(np.float32))
    writer.join()
    spec.close()
    table = np.stack([writer.rows[n] for n in range(integrations)])
    print(table.mean())


if __name__ == "__main__":
    main()
