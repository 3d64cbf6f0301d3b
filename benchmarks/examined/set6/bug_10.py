from typing import List, Tuple

import cupy as cp
from cupyx.scipy import ndimage

LEVELS = 4


class GpuImagePyramid:
    def __init__(self, height: int, width: int):
        self.levels = [
            cp.zeros((height >> i, width >> i), dtype=cp.float32) for i in range(LEVELS)
        ]
        self.grad_x = [cp.zeros_like(level) for level in self.levels]
        self.grad_y = [cp.zeros_like(level) for level in self.levels]

    def build(self, image: cp.ndarray) -> None:
        self.levels[0][...] = image
        for i in range(1, LEVELS):
            blurred = ndimage.gaussian_filter(self.levels[i - 1], 1.0)
            self.levels[i][...] = blurred[::2, ::2]
        for i, level in enumerate(self.levels):
            ndimage.sobel(level, axis=1, output=self.grad_x[i])
            ndimage.sobel(level, axis=0, output=self.grad_y[i])


class MonoSOF:
    def __init__(self, height: int, width: int):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.image = cp.zeros((height, width), dtype=cp.float32)
        self.pyramid = GpuImagePyramid(height, width)

    def track(self, frame) -> None:
        with self.stream:
            self.image.set(frame, stream=self.stream)
            self.pyramid.build(self.image)


class StereoSOF:
    def __init__(self, primary: MonoSOF, secondary: MonoSOF):
        self.primary, self.secondary = primary, secondary
        self.stream = cp.cuda.Stream(non_blocking=True)

    def launch(self) -> None:
        a, b = self.primary.pyramid, self.secondary.pyramid
        with self.stream:
            cost = cp.zeros((), dtype=cp.float32)
            for i in reversed(range(LEVELS)):
                residual = a.levels[i] - b.levels[i]
                cost += (residual * a.grad_x[i]).sum()
            self.cost = cost

    def finish(self) -> float:
        self.stream.synchronize()
        with self.stream:
            return float(self.cost)


class MulticameraSOF:
    def __init__(self, num_cameras: int, pairs: List[Tuple[int, int]], height: int, width: int):
        self.mono = [MonoSOF(height, width) for _ in range(num_cameras)]
        self.stereo = [StereoSOF(self.mono[i], self.mono[j]) for i, j in pairs]
        cp.cuda.Device().synchronize()

    def track(self, frames) -> List[float]:
        for sof, frame in zip(self.mono, frames):
            sof.track(frame)
        for pair in self.stereo:
            pair.launch()
        costs = [pair.finish() for pair in self.stereo]
        for sof in self.mono:
            sof.stream.synchronize()
        return costs
