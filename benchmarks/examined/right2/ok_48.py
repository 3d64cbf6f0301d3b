"""Two independent accumulators merged on the default stream."""
import cupy as cp
import numpy as np

accumulate = cp.ElementwiseKernel(
    "float32 x, float32 gain", "float32 acc", "acc = 0.98f * acc + gain * x", "accumulate"
)
merge = cp.ElementwiseKernel(
    "float32 a, float32 b", "float32 out", "out += a * b; ", "merge_pair"
)


class PairCorrelator:
    def __init__(self, n):
        self.left_stream = cp.cuda.Stream()
        self.right_stream = cp.cuda.Stream()
        self.left = cp.zeros(n, dtype=cp.float32)
        self.right = cp.zeros(n, dtype=cp.float32)
        self.product = cp.zeros(n, dtype=cp.float32)

    def step(self, lhs, rhs, gain):
        with self.left_stream:
            accumulate(lhs, cp.float32(gain), self.left)
        with self.right_stream:
            accumulate(rhs, cp.float32(gain), self.right)
        merge(self.left, self.right, self.product)

    def snapshot(self):
        return self.product.get()


def main(n=1 << 18, steps=100):
    frames_l = cp.random.standard_normal((steps, n), dtype=cp.float32)
    frames_r = cp.random.standard_normal((steps, n), dtype=cp.float32)
    corr = PairCorrelator(n)
    history = []
    for i in range(steps):
        corr.step(frames_l[i], frames_r[i], gain=1.0 / (i + 1))
        if i % 10 == 9:
            history.append(corr.snapshot())
    return np.stack(history)


if __name__ == "__main__":
    print(main().mean(axis=1))
