"""Multi-source delay-and-sum imaging."""
from __future__ import annotations

import numpy as np
import pycuda.autoinit
import pycuda.driver as drv
from pycuda.compiler import SourceModule

_module = SourceModule(
    """
__global__ void delay_sum(const float *trace, const float *delay, float *image,
                          int samples, int receivers, int pixels)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    float total = 0.f;
    for (int r = 0; r < receivers; ++r) {
        int t = (int)delay[r * pixels + p];
        if (t >= 0 && t < samples) total += trace[r * samples + t];
    }
    image[p] = total;
}

__global__ void stack(const float *images, float *result, int shots, int pixels)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= pixels) return;
    float total = 0.f;
    for (int s = 0; s < shots; ++s) total += images[s * pixels + p];
    result[p] += total;
}
"""
)
_delay_sum = _module.get_function("delay_sum")
_stack = _module.get_function("stack")


class Imager:
    def __init__(self, shots: int, receivers: int, samples: int, delay: np.ndarray) -> None:
        self.shots, self.receivers, self.samples = shots, receivers, samples
        delay = np.ascontiguousarray(delay, dtype=np.float32)
        self.pixels = delay.shape[1]
        self.streams = [drv.Stream() for _ in range(shots)]
        self.delay = drv.to_device(delay)
        self.traces = drv.mem_alloc(4 * shots * receivers * samples)
        self.images = drv.mem_alloc(4 * shots * self.pixels)
        self.result = drv.mem_alloc(4 * self.pixels)
        self.reset()

    def reset(self) -> None:
        drv.memset_d32(self.result, 0, self.pixels)

    def add(self, gathers: np.ndarray) -> None:
        gathers = np.ascontiguousarray(gathers, dtype=np.float32)
        if gathers.shape != (self.shots, self.receivers, self.samples):
            raise ValueError("unexpected gather shape")
        drv.memcpy_htod(self.traces, gathers)
        grid = (-(-self.pixels // 128), 1)
        trace_bytes = 4 * self.receivers * self.samples
        for shot, stream in enumerate(self.streams):
            _delay_sum(
                np.intp(int(self.traces) + shot * trace_bytes),
                self.delay,
                np.intp(int(self.images) + shot * 4 * self.pixels),
                np.int32(self.samples), np.int32(self.receivers), np.int32(self.pixels),
                block=(128, 1, 1), grid=grid, stream=stream,
            )
        _stack(
            self.images, self.result, np.int32(self.shots), np.int32(self.pixels),
            block=(128, 1, 1), grid=grid,
        )

    def image(self) -> np.ndarray:
        host = np.empty(self.pixels, dtype=np.float32)
        drv.memcpy_dtoh(host, self.result)
        return host


def main() -> None:
    rng = np.random.default_rng(8)
    receivers, samples, pixels = 32, 2048, 128 * 128
    delay = rng.uniform(0, samples, (receivers, pixels))
    imager = Imager(6, receivers, samples, delay)
    for survey in range(3):
        imager.reset()
        for _ in range(4):
            imager.add(rng.standard_normal((6, receivers, samples)))
        picture = imager.image()
        print(survey, float(picture.mean()), float(picture.std()))


if __name__ == "__main__":
    main()
