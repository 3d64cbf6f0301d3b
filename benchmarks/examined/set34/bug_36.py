"""Separable smoothing with coefficients kept in a module constant."""
from concurrent.futures import ThreadPoolExecutor
from typing import List

import cupy as cp
import numpy as np

_SOURCE = r"""
extern "C" {
__constant__ float c_kernel[65];

__global__ void smooth_rows(const float* src, float* dst, int w, int h, int radius) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y;
    if (x >= w) return;
    float acc = 0.f;
    for (int k = -radius; k <= radius; ++k) {
        int xx = min(max(x + k, 0), w - 1);
        acc += c_kernel[k + radius] * src[y * w + xx];
    }
    dst[y * w + x] = acc;
}

__global__ void smooth_cols(const float* src, float* dst, int w, int h, int radius) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y;
    if (x >= w) return;
    float acc = 0.f;
    for (int k = -radius; k <= radius; ++k) {
        int yy = min(max(y + k, 0), h - 1);
        acc += c_kernel[k + radius] * src[yy * w + x];
    }
    dst[y * w + x] = acc;
}
}
"""

_MODULE = cp.RawModule(code=_SOURCE)


def gaussian(sigma: float) -> np.ndarray:
    radius = min(int(3 * sigma + 0.5), 32)
    x = np.arange(-radius, radius + 1, dtype=np.float32)
    taps = np.exp(-0.5 * (x / sigma) ** 2)
    return (taps / taps.sum()).astype(np.float32)


class Smoother:
    """One instance per camera; owns its stream and intermediate image."""

    def __init__(self, height: int, width: int, sigma: float):
        self.h, self.w = height, width
        self.taps = gaussian(sigma)
        self.radius = len(self.taps) // 2
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.rows = _MODULE.get_function("smooth_rows")
        self.cols = _MODULE.get_function("smooth_cols")
        self.coeffs = cp.ndarray(
            (len(self.taps),), dtype=cp.float32, memptr=_MODULE.get_global("c_kernel")
        )
        with self.stream:
            self.tmp = cp.empty((height, width), dtype=cp.float32)
            self.dst = cp.empty((height, width), dtype=cp.float32)
        self.stream.synchronize()

    def calc(self, src: cp.ndarray) -> cp.ndarray:
        grid, block = ((self.w + 127) // 128, self.h), (128,)
        args = (np.int32(self.w), np.int32(self.h), np.int32(self.radius))
        self.coeffs.set(self.taps, stream=self.stream)
        with self.stream:
            self.rows(grid, block, (src, self.tmp) + args)
            self.cols(grid, block, (self.tmp, self.dst) + args)
        return self.dst


class Camera:
    def __init__(self, index: int, height: int, width: int):
        self.smoother = Smoother(height, width, sigma=1.0 + 1.5 * index)
        with self.smoother.stream:
            self.frame = cp.random.rand(height, width, dtype=cp.float32)

    def run(self, frames: int) -> float:
        for _ in range(frames):
            out = self.smoother.calc(self.frame)
            with self.smoother.stream:
                self.frame[...] = 0.5 * self.frame + 0.5 * out
        return float(self.frame.get(stream=self.smoother.stream).std())


def main(cameras: int = 4, frames: int = 200) -> None:
    rig: List[Camera] = [Camera(i, 2160, 3840) for i in range(cameras)]
    cp.cuda.Device().synchronize()
    with ThreadPoolExecutor(cameras) as pool:
        print(list(pool.map(lambda cam: cam.run(frames), rig)))


if __name__ == "__main__":
    main()
