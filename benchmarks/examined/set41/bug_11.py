"""Camera frames uploaded through page-locked memory and filtered on the GPU."""
import cupy as cp
import cupyx
import numpy as np

unsharp = cp.ElementwiseKernel(
    "uint8 px, float32 mean, float32 gain",
    "float32 out",
    "out = fminf(255.f, fmaxf(0.f, (float)px + gain * ((float)px - mean)))",
    "unsharp",
)


class FrameUploader:
    def __init__(self, shape, ring=4):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.staging = cupyx.empty_pinned(shape, dtype=np.uint8)
        with self.stream:
            self.slots = [cp.zeros(shape, dtype=cp.uint8) for _ in range(ring)]
        self.ready = [cp.cuda.Event(disable_timing=True) for _ in range(ring)]
        self.released = [cp.cuda.Event(disable_timing=True) for _ in range(ring)]
        self.head = 0

    def push(self, frame):
        i = self.head
        self.head = (self.head + 1) % len(self.slots)
        self.staging[...] = frame
        self.stream.wait_event(self.released[i])
        self.slots[i].set(self.staging, stream=self.stream)
        self.ready[i].record(self.stream)
        return i


class Sharpener:
    def __init__(self, uploader, gain=0.6):
        self.uploader = uploader
        self.gain = np.float32(gain)
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.total = cp.zeros(uploader.slots[0].shape, dtype=cp.float32)
            self.mean = cp.full(uploader.slots[0].shape, 96.0, dtype=cp.float32)

    def consume(self, i):
        up = self.uploader
        with self.stream:
            self.stream.wait_event(up.ready[i])
            sharp = unsharp(up.slots[i], self.mean, self.gain)
            self.total += sharp
            self.mean *= np.float32(0.9)
            self.mean += np.float32(0.1) * sharp
            up.released[i].record(self.stream)

    def result(self):
        self.stream.synchronize()
        return cp.asnumpy(self.total)


class SyntheticCamera:
    def __init__(self, shape, count, seed=3):
        self.rng = np.random.default_rng(seed)
        self.shape, self.count = shape, count

    def __iter__(self):
        base = self.rng.integers(0, 255, self.shape, dtype=np.uint8)
        for k in range(self.count):
            yield np.roll(base, k * 7, axis=1)


def main():
    shape = (2160, 3840)
    uploader = FrameUploader(shape)
    sharpener = Sharpener(uploader)
    uploader.stream.synchronize()
    sharpener.stream.synchronize()
    for frame in SyntheticCamera(shape, 60):
        sharpener.consume(uploader.push(frame))
    print(sharpener.result().mean())


if __name__ == "__main__":
    main()
