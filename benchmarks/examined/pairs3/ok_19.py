"""Digitizer readout: finished buffers are handed to a writer thread from the stream."""
import queue
import threading

import cupy as cp
import cupyx
import numpy as np

CHUNK = 1 << 22


class Readout:
    def __init__(self, path, depth=4):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.empty = queue.Queue()
        self.full = queue.Queue()
        for _ in range(depth):
            self.empty.put(cupyx.empty_pinned(CHUNK, np.float32))
        self.file = open(path, "wb")
        self.writer = threading.Thread(target=self._write, name="writer")
        self.writer.start()

    def _hand_over(self, host):
        self.full.put(host)

    def _write(self):
        while True:
            host = self.full.get()
            if host is None:
                return
            self.file.write(host.tobytes())
            self.empty.put(host)

    def emit(self, samples):
        host = self.empty.get()
        samples.get(stream=self.stream, out=host, blocking=False)
        self.stream.launch_host_func(self._hand_over, host)

    def close(self):
        self.stream.synchronize()
        self.full.put(None)
        self.writer.join()
        self.file.close()


def acquire(readout, chunks):
    with readout.stream:
        phase = cp.arange(CHUNK, dtype=cp.float32)
        for k in range(chunks):
            samples = cp.sin(phase * np.float32(1e-3 * (k + 1)))
            samples += cp.random.standard_normal(CHUNK, dtype=cp.float32)
            readout.emit(samples)


if __name__ == "__main__":
    ro = Readout("trace.f32")
    acquire(ro, 200)
    ro.close()
