"""Reads a large raw file through two registered windows of anonymous memory."""
import mmap
import sys

import cupy as cp
import numpy as np

WINDOW = 1 << 24
runtime = cp.cuda.runtime


class Window:
    def __init__(self):
        self.map = mmap.mmap(-1, WINDOW)
        self.bytes = np.frombuffer(self.map, np.uint8)
        runtime.hostRegister(self.bytes.ctypes.data, WINDOW, 0)
        self.uploaded = cp.cuda.Event(disable_timing=True)

    def refill(self, handle):
        self.uploaded.synchronize()
        return handle.readinto(memoryview(self.map))

    def release(self):
        self.uploaded.synchronize()
        runtime.hostUnregister(self.bytes.ctypes.data)


class ByteHistogram:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.windows = [Window(), Window()]
        with self.stream:
            self.chunk = cp.empty(WINDOW, cp.uint8)
            self.hist = cp.zeros(256, cp.int64)

    def run(self, path):
        turn = 0
        with open(path, "rb", buffering=0) as handle:
            while True:
                window = self.windows[turn & 1]
                size = window.refill(handle)
                if not size:
                    break
                with self.stream:
                    self.chunk.data.copy_from_host_async(window.bytes.ctypes.data, size, self.stream)
                    window.uploaded.record(self.stream)
                    self.hist += cp.bincount(self.chunk[:size], minlength=256)
                turn += 1
        with self.stream:
            return self.hist.get()

    def close(self):
        for window in self.windows:
            window.release()


def main():
    histogram = ByteHistogram()
    try:
        print(histogram.run(sys.argv[1])[:16])
    finally:
        histogram.close()


if __name__ == "__main__":
    main()
