"""Live detector frames summed on the device."""
import cupy as cp
import cupyx
import numpy as np


class FrameSum:
    def __init__(self, shape, dtype=np.uint16):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.frame = cupyx.empty_pinned(shape, dtype=dtype)
        with self.stream:
            self.device_frame = cp.empty(shape, dtype=dtype)
            self.total = cp.zeros(shape, dtype=np.float32)

    def push(self, source):
        source.readinto(self.frame)
        self.device_frame.data.copy_from_host_async(
            self.frame.ctypes.data, self.frame.nbytes, self.stream)
        with self.stream:
            self.total += self.device_frame

    def result(self):
        out = self.total.get(stream=self.stream)
        self.stream.synchronize()
        return out


class SyntheticSource:
    def __init__(self, shape, seed=0):
        self.rng = np.random.default_rng(seed)
        self.shape = shape

    def readinto(self, out):
        out[...] = self.rng.integers(0, 4096, self.shape, dtype=out.dtype)


def main():
    shape = (2048, 2048)
    acc = FrameSum(shape)
    src = SyntheticSource(shape)
    for _ in range(100):
        acc.push(src)
    print(acc.result().mean())


if __name__ == "__main__":
    main()
