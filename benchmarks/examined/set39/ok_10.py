"""Develops raw sensor frames with a separate upload stream."""
import cupy as cp
import cupyx
import numpy as np

tone = cp.ElementwiseKernel(
    "uint16 raw, float32 dark, float32 gain",
    "float32 out",
    """
    float v = ((float)raw - dark) * gain;
    out = v > 0.0f ? sqrtf(v) : 0.0f;
    """,
    "tone_curve",
)

weighted = cp.ReductionKernel(
    "float32 x", "float64 y", "(double)x", "a + b", "y = a", "0", "weighted_sum"
)


class FrameDeveloper:
    def __init__(self, shape):
        self.shape = shape
        self.copy_stream = cp.cuda.Stream()
        self.raw = cp.zeros(shape, dtype=cp.uint16)
        self.dark = cp.full(shape, 64.0, dtype=cp.float32)
        self.gain = cp.full(shape, 1.0 / 4096.0, dtype=cp.float32)

    def load(self, pinned):
        self.raw.set(pinned, stream=self.copy_stream)

    def develop(self):
        out = cp.empty(self.shape, dtype=cp.float32)
        tone(self.raw, self.dark, self.gain, out)
        return out


class FrameSource:
    def __init__(self, count, shape, seed=0):
        rng = np.random.default_rng(seed)
        self.frames = []
        for _ in range(count):
            frame = cupyx.empty_pinned(shape, dtype=np.uint16)
            frame[...] = rng.integers(0, 4096, size=shape, dtype=np.uint16)
            self.frames.append(frame)

    def __iter__(self):
        return iter(self.frames)


def main():
    shape = (4096, 4096)
    developer = FrameDeveloper(shape)
    source = FrameSource(6, shape)
    totals = cp.zeros(len(source.frames), dtype=cp.float64)
    for i, frame in enumerate(source):
        developer.load(frame)
        image = developer.develop()
        totals[i] = weighted(image)
    print(cp.asnumpy(totals / float(np.prod(shape))).tolist())


if __name__ == "__main__":
    main()
