"""Live detector frames summed on the device."""
import cupy as cp
import cupyx
import numpy as np


class FrameSum:
    def __init__(self, shape, depth=3, dtype=np.uint16):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.ring = [cupyx.empty_pinned(shape, dtype=dtype) for _ in range(depth)]
        self.free = [cp.cuda.Event(disable_timing=True) for _ in range(depth)]
        with self.stream:
            self.device_frame = cp.empty(shape, dtype=dtype)
            self.total = cp.zeros(shape, dtype=np.float32)
        self.count = 0

    def push(self, source):
        slot = self.count % len(self.ring)
        if self.count >= len(self.ring):
            self.free[slot].synchronize()
        frame = self.ring[slot]
        source.readinto(frame)
        self.device_frame.data.copy_from_host_async(
            frame.ctypes.data, frame.nbytes, self.stream)
        self.free[slot].record(self.stream)
        with self.stream:
            self.total += self.device_frame
        self.count += 1

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
