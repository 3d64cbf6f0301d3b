"""Image stack projection: frames arrive on streams, the projection runs without one."""
from typing import Iterable, List

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

MODULE = SourceModule("""
__global__ void project(const unsigned short *frame, unsigned short *best, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && frame[i] > best[i]) best[i] = frame[i];
}
__global__ void clip(unsigned short *best, unsigned short top, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && best[i] > top) best[i] = top;
}
""")
PROJECT = MODULE.get_function("project")
CLIP = MODULE.get_function("clip")


class MaxProjection:
    def __init__(self, height: int, width: int, lanes: int = 2):
        self.shape = (height, width)
        self.size = height * width
        self.streams = [drv.Stream() for _ in range(lanes)]
        self.host = [drv.pagelocked_empty(self.size, np.uint16) for _ in range(lanes)]
        self.dev = [drv.mem_alloc(self.size * 2) for _ in range(lanes)]
        self.best = drv.mem_alloc(self.size * 2)
        self.block = (256, 1, 1)
        self.grid = ((self.size + 255) // 256, 1)
        self.turn = 0
        self.reset()

    def reset(self) -> None:
        drv.memset_d16(self.best, 0, self.size)

    def add(self, frame: np.ndarray) -> None:
        if frame.shape != self.shape:
            raise ValueError(f"expected {self.shape}")
        k = self.turn
        self.turn = (k + 1) % len(self.streams)
        self.streams[k].synchronize()
        self.host[k][:] = frame.reshape(-1)
        drv.memcpy_htod_async(self.dev[k], self.host[k], self.streams[k])
        PROJECT(self.dev[k], self.best, np.int32(self.size), block=self.block, grid=self.grid)

    def clip(self, top: int) -> None:
        CLIP(self.best, np.uint16(top), np.int32(self.size), block=self.block, grid=self.grid)

    def image(self) -> np.ndarray:
        out = np.empty(self.shape, np.uint16)
        drv.memcpy_dtoh(out, self.best)
        return out

    def preview(self, step: int) -> np.ndarray:
        return self.image()[::step, ::step]


def project_groups(groups: Iterable[List[np.ndarray]], top: int) -> List[np.ndarray]:
    tool = None
    images: List[np.ndarray] = []
    for frames in groups:
        if not frames:
            continue
        if tool is None:
            tool = MaxProjection(*frames[0].shape)
        else:
            tool.reset()
        for frame in frames:
            tool.add(frame)
        tool.clip(top)
        images.append(tool.image())
    return images
