"""Numba pipeline: host callbacks behind the download hand finished blocks to a writer thread."""
import math
import queue
import threading
import numpy as np
from numba import cuda


@cuda.jit
def calibrate(raw, gain, out):
    i = cuda.grid(1)
    if i < raw.size:
        out[i] = raw[i] * gain[i % gain.size]


class Channel:
    def __init__(self, n):
        self.stream = cuda.stream()
        self.raw = cuda.pinned_array(n, np.float32)
        self.cal = cuda.pinned_array(n, np.float32)
        self.d_raw = cuda.device_array(n, np.float32)
        self.d_cal = cuda.device_array(n, np.float32)
        self.free = threading.Event()
        self.free.set()


class Calibrator:
    def __init__(self, n, gain, channels=3):
        self.n = n
        self.gain = cuda.to_device(gain)
        self.channels = [Channel(n) for _ in range(channels)]
        self.done = queue.Queue()
        self.sums = []
        self.writer = threading.Thread(target=self._write)
        self.writer.start()

    def _on_finished(self, stream, status, ch):
        self.done.put(ch)

    def _write(self):
        while True:
            ch = self.done.get()
            if ch is None:
                return
            self.sums.append(float(ch.cal.sum()))
            ch.free.set()

    def submit(self, i, block):
        ch = self.channels[i % len(self.channels)]
        ch.free.wait()
        ch.free.clear()
        ch.raw[:] = block
        ch.d_raw.copy_to_device(ch.raw, stream=ch.stream)
        calibrate[math.ceil(self.n / 256), 256, ch.stream](ch.d_raw, self.gain, ch.d_cal)
        ch.d_cal.copy_to_host(ch.cal, stream=ch.stream)
        ch.stream.add_callback(self._on_finished, ch)

    def close(self):
        for ch in self.channels:
            ch.stream.synchronize()
            ch.free.wait()
        self.done.put(None)
        self.writer.join()


def main():
    rng = np.random.default_rng(0)
    cal = Calibrator(1 << 20, rng.random(4096, dtype=np.float32))
    for i in range(64):
        cal.submit(i, rng.random(1 << 20, dtype=np.float32))
    cal.close()
    print(len(cal.sums), sum(cal.sums))


if __name__ == "__main__":
    main()
