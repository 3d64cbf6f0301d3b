"""Multi-angle CT filtering: projections are filtered by a small thread pool (CuPy)."""
from concurrent.futures import ThreadPoolExecutor

import cupy as cp
import numpy as np


def ramp(width):
    n = 1 << int(np.ceil(np.log2(2 * width)))
    freq = cp.fft.rfftfreq(n)
    return n, (2.0 * cp.abs(freq)).astype(cp.float32)


class FilterBank:
    def __init__(self, width, window="hann"):
        self.width = width
        self.n, response = ramp(width)
        if window == "hann":
            k = cp.arange(response.size, dtype=cp.float32) / response.size
            response *= 0.5 * (1.0 + cp.cos(cp.pi * k))
        self.response = response

    def apply(self, rows):
        spec = cp.fft.rfft(rows, n=self.n, axis=-1)
        return cp.fft.irfft(spec * self.response, n=self.n, axis=-1)[..., : self.width]


BACK = cp.RawKernel(r"""
extern "C" __global__
void backproject(const float* sino, const float* theta, float* img, int angles, int width, int n) {
    int x = blockDim.x * blockIdx.x + threadIdx.x;
    int y = blockDim.y * blockIdx.y + threadIdx.y;
    if (x >= n || y >= n) return;
    float cx = x - 0.5f * n, cy = y - 0.5f * n, acc = 0.f;
    for (int a = 0; a < angles; ++a) {
        float t = cx * cosf(theta[a]) + cy * sinf(theta[a]) + 0.5f * width;
        int i = (int)floorf(t);
        if (i >= 0 && i < width - 1) {
            float f = t - i;
            acc += (1.f - f) * sino[a * width + i] + f * sino[a * width + i + 1];
        }
    }
    img[y * n + x] = acc * 3.14159265f / angles;
}
""", "backproject")


class Reconstructor:
    def __init__(self, angles, width, n, workers=4):
        self.angles, self.width, self.n = angles, width, n
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.stream.use()
        self.theta = cp.linspace(0.0, np.pi, angles, endpoint=False, dtype=cp.float32)
        self.bank = FilterBank(width)
        self.filtered = cp.empty((angles, width), dtype=cp.float32)
        self.stream.synchronize()
        self.pool = ThreadPoolExecutor(workers)
        self.workers = workers

    def _filter_rows(self, sino, lo, hi):
        self.filtered[lo:hi] = self.bank.apply(sino[lo:hi])

    def _filter(self, sino):
        edges = np.linspace(0, self.angles, self.workers + 1).astype(int)
        jobs = [self.pool.submit(self._filter_rows, sino, a, b) for a, b in zip(edges[:-1], edges[1:])]
        for j in jobs:
            j.result()

    def slice(self, host):
        sino = cp.asarray(host)
        self.stream.synchronize()
        self._filter(sino)
        img = cp.empty((self.n, self.n), dtype=cp.float32)
        g = (self.n + 15) // 16
        BACK((g, g), (16, 16), (self.filtered, self.theta, img,
                                np.int32(self.angles), np.int32(self.width), np.int32(self.n)))
        return img.get()

    def close(self):
        self.pool.shutdown()
        cp.cuda.Stream.null.use()


def phantom(angles, width, seed):
    rng = np.random.default_rng(seed)
    theta = np.linspace(0.0, np.pi, angles, endpoint=False)[:, None]
    t = np.arange(width)[None, :] - width / 2
    out = np.zeros((angles, width))
    for x, y, r in rng.uniform([-60, -60, 8], [60, 60, 40], size=(6, 3)):
        d = t - (x * np.cos(theta) + y * np.sin(theta))
        out += 2.0 * np.sqrt(np.clip(r * r - d * d, 0, None))
    return out.astype(np.float32)


def main():
    rec = Reconstructor(angles=720, width=367, n=256)
    for k in range(10):
        img = rec.slice(phantom(720, 367, k))
        print(k, float(img.min()), float(img.max()))
    rec.close()


if __name__ == "__main__":
    main()
