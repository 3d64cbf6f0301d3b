"""Blur many images on worker streams; the shared kernel table is rebuilt on the default stream."""
import cupy as cp
import numpy as np

convolve = cp.RawKernel(
    r"""
extern "C" __global__
void convolve(const float* img, const float* taps, float* out, int n, int r) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= n) return;
    float acc = 0.f;
    for (int k = -r; k <= r; ++k) {
        int j = min(max(i + k, 0), n - 1);
        acc += img[j] * taps[k + r];
    }
    out[i] = acc;
}
""",
    "convolve",
)


class Bank:
    R = 8

    def __init__(self, count: int, n: int):
        self.n = n
        self.streams = [cp.cuda.Stream() for _ in range(count)]
        self.images = [cp.random.random(n, dtype=cp.float32) for _ in range(count)]
        self.outputs = [cp.zeros(n, cp.float32) for _ in range(count)]
        self.offsets = cp.arange(-self.R, self.R + 1, dtype=cp.float32)
        self.taps = cp.zeros(2 * self.R + 1, cp.float32)

    def retune(self, sigma: float):
        cp.exp(-0.5 * (self.offsets / sigma) ** 2, out=self.taps)
        self.taps /= self.taps.sum()

    def blur(self):
        grid = ((self.n + 255) // 256,)
        for s, img, out in zip(self.streams, self.images, self.outputs):
            with s:
                convolve(grid, (256,), (img, self.taps, out, np.int32(self.n), np.int32(self.R)))

    def swap(self):
        self.images, self.outputs = self.outputs, self.images

    def summary(self) -> np.ndarray:
        return cp.asnumpy(cp.stack(self.images).std(axis=1))


def main():
    bank = Bank(6, 1 << 20)
    for step in range(10):
        bank.retune(1.0 + 0.5 * step)
        bank.blur()
        bank.swap()
    print(bank.summary())


if __name__ == "__main__":
    main()
