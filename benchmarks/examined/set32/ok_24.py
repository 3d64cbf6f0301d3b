"""asyncio service: lanes with page-locked buffers, one job per lane at a time."""
import asyncio

import numpy as np
from numba import cuda


@cuda.jit
def dilate(src, dst, radius):
    y, x = cuda.grid(2)
    if y < src.shape[0] and x < src.shape[1]:
        best = src[y, x]
        for dy in range(-radius, radius + 1):
            for dx in range(-radius, radius + 1):
                yy = min(max(y + dy, 0), src.shape[0] - 1)
                xx = min(max(x + dx, 0), src.shape[1] - 1)
                if src[yy, xx] > best:
                    best = src[yy, xx]
        dst[y, x] = best


class Lane:
    def __init__(self, shape):
        self.stream = cuda.stream()
        self.host_in = cuda.pinned_array(shape, dtype=np.uint8)
        self.host_out = cuda.pinned_array(shape, dtype=np.uint8)
        self.dev_in = cuda.device_array(shape, dtype=np.uint8)
        self.dev_out = cuda.device_array(shape, dtype=np.uint8)

    def start(self, image, radius):
        h, w = self.host_in.shape
        self.host_in[...] = image
        self.dev_in.copy_to_device(self.host_in, stream=self.stream)
        blocks = ((h + 15) // 16, (w + 15) // 16)
        dilate[blocks, (16, 16), self.stream](self.dev_in, self.dev_out, radius)
        self.dev_out.copy_to_host(self.host_out, stream=self.stream)


class LanePool:
    def __init__(self, shape, count):
        self.lanes = [Lane(shape) for _ in range(count)]
        self.free = asyncio.Queue()
        for lane in self.lanes:
            self.free.put_nowait(lane)

    async def acquire(self):
        return await self.free.get()

    def release(self, lane):
        self.free.put_nowait(lane)


class Service:
    def __init__(self, shape, lanes=4):
        self.shape, self.count = shape, lanes
        self.pool = None

    async def open(self):
        self.pool = LanePool(self.shape, self.count)

    async def process(self, image, radius=2):
        lane = await self.pool.acquire()
        finished = False
        try:
            lane.start(image, radius)
            await lane.stream.async_done()
            finished = True
            return lane.host_out.copy()
        finally:
            if not finished:
                lane.stream.synchronize()
            self.pool.release(lane)


async def run(images, shape):
    service = Service(shape)
    await service.open()
    tasks = [asyncio.create_task(service.process(img)) for img in images]
    return await asyncio.gather(*tasks)


def main(images):
    return asyncio.run(run(images, images[0].shape))
