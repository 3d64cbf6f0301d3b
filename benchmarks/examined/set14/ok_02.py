import math

import numpy as np
from numba import cuda

FAR = np.float32(1e20)


@cuda.jit
def _seed(mask, seeds):
    x, y = cuda.grid(2)
    if x < mask.shape[1] and y < mask.shape[0]:
        inside = mask[y, x] > 0
        seeds[y, x, 0] = x if inside else -1
        seeds[y, x, 1] = y if inside else -1


@cuda.jit
def _flood(src, dst, step):
    x, y = cuda.grid(2)
    h, w = src.shape[0], src.shape[1]
    if x >= w or y >= h:
        return
    best = FAR
    bx, by = -1, -1
    for dy in range(-1, 2):
        for dx in range(-1, 2):
            sx = x + dx * step
            sy = y + dy * step
            if 0 <= sx < w and 0 <= sy < h and src[sy, sx, 0] >= 0:
                qx = src[sy, sx, 0]
                qy = src[sy, sx, 1]
                d = float((qx - x) * (qx - x) + (qy - y) * (qy - y))
                if d < best:
                    best = d
                    bx, by = qx, qy
    dst[y, x, 0] = bx
    dst[y, x, 1] = by


@cuda.jit
def _resolve(seeds, out):
    x, y = cuda.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        dx = seeds[y, x, 0] - x
        dy = seeds[y, x, 1] - y
        out[y, x] = math.sqrt(float(dx * dx + dy * dy))


class DistanceField:
    def __init__(self, width, height):
        self.width, self.height = width, height
        self.block = (16, 16)
        self.grid = (math.ceil(width / 16), math.ceil(height / 16))
        self.streams = (cuda.stream(), cuda.stream())
        self.buffers = [cuda.device_array((height, width, 2), np.int32) for _ in range(2)]
        self.field = cuda.device_array((height, width), np.float32)
        self.ready = cuda.event(timing=False)

    def _passes(self):
        step = 1 << (max(self.width, self.height) - 1).bit_length()
        while step > 1:
            step //= 2
            yield step

    def build(self, mask):
        first = self.streams[0]
        d_mask = cuda.to_device(mask, stream=first)
        _seed[self.grid, self.block, first](d_mask, self.buffers[0])
        current = 0
        for i, step in enumerate(self._passes()):
            stream = self.streams[i & 1]
            src, dst = self.buffers[current], self.buffers[1 - current]
            _flood[self.grid, self.block, stream](src, dst, step)
            self.ready.record(stream)
            self.ready.wait(self.streams[1 - (i & 1)])
            current = 1 - current
        for stream in self.streams:
            stream.synchronize()
        _resolve[self.grid, self.block, first](self.buffers[current], self.field)
        result = self.field.copy_to_host(stream=first)
        first.synchronize()
        return result
