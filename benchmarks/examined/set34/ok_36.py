"""Asyncio image service on Numba streams."""
import asyncio
from typing import List

import numpy as np
from numba import cuda

TPB = (16, 16)


@cuda.jit
def box_blur(src, dst, radius):
    y, x = cuda.grid(2)
    if y < src.shape[0] and x < src.shape[1]:
        acc = 0.0
        count = 0
        for dy in range(-radius, radius + 1):
            for dx in range(-radius, radius + 1):
                yy, xx = y + dy, x + dx
                if 0 <= yy < src.shape[0] and 0 <= xx < src.shape[1]:
                    acc += src[yy, xx]
                    count += 1
        dst[y, x] = acc / count


@cuda.jit
def sharpen(src, blurred, dst, amount):
    y, x = cuda.grid(2)
    if y < src.shape[0] and x < src.shape[1]:
        dst[y, x] = src[y, x] + amount * (src[y, x] - blurred[y, x])


class Lane:
    """A stream with its own staging and device images."""

    def __init__(self, shape):
        self.shape = shape
        self.stream = cuda.stream()
        self.staging = cuda.pinned_array(shape, dtype=np.float32)
        self.src = cuda.device_array(shape, dtype=np.float32)
        self.blur = cuda.device_array(shape, dtype=np.float32)
        self.dst = cuda.device_array(shape, dtype=np.float32)
        self.grid = ((shape[0] + 15) // 16, (shape[1] + 15) // 16)

    async def run(self, image: np.ndarray, amount: float) -> np.ndarray:
        self.staging[...] = image
        self.src.copy_to_device(self.staging, stream=self.stream)
        box_blur[self.grid, TPB, self.stream](self.src, self.blur, 3)
        sharpen[self.grid, TPB, self.stream](self.src, self.blur, self.dst, amount)
        self.dst.copy_to_host(self.staging, stream=self.stream)
        await self.stream.async_done()
        return self.staging.copy()


class ImageService:
    def __init__(self, shape, lanes: int = 3):
        self.lanes: List[Lane] = [Lane(shape) for _ in range(lanes)]
        self.free: "asyncio.Queue[Lane]" = asyncio.Queue()
        for lane in self.lanes:
            self.free.put_nowait(lane)

    async def handle(self, image: np.ndarray, amount: float = 0.7) -> float:
        lane = await self.free.get()
        try:
            result = await lane.run(image, amount)
        except BaseException:
            lane.stream.synchronize()
            raise
        finally:
            self.free.put_nowait(lane)
        return float(result.std())


async def main(requests: int = 64) -> None:
    shape = (1024, 1024)
    service = ImageService(shape)
    rng = np.random.default_rng(0)
    images = [rng.random(shape, dtype=np.float32) for _ in range(8)]
    values = await asyncio.gather(
        *(service.handle(images[i % len(images)]) for i in range(requests))
    )
    print(min(values), max(values))


if __name__ == "__main__":
    asyncio.run(main())
