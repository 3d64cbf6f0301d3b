import asyncio

import numpy as np
from numba import cuda


@cuda.jit
def mandel(xs, ys, limit, out):
    i, j = cuda.grid(2)
    if i < ys.size and j < xs.size:
        cr, ci = xs[j], ys[i]
        zr = zi = 0.0
        n = 0
        while n < limit and zr * zr + zi * zi < 4.0:
            zr, zi = zr * zr - zi * zi + cr, 2.0 * zr * zi + ci
            n += 1
        out[i, j] = n


class Lane:
    def __init__(self, size):
        self.stream = cuda.stream()
        self.xs = cuda.device_array(size, np.float64)
        self.ys = cuda.device_array(size, np.float64)
        self.out = cuda.device_array((size, size), np.int32)
        self.host = cuda.pinned_array((size, size), np.int32)


class TileServer:
    def __init__(self, size, lanes):
        self.size = size
        self.idle = asyncio.Queue()
        for _ in range(lanes):
            self.idle.put_nowait(Lane(size))

    async def tile(self, x0, y0, span):
        lane = await self.idle.get()
        xs = np.linspace(x0, x0 + span, self.size)
        ys = np.linspace(y0, y0 + span, self.size)
        grid = ((self.size + 15) // 16,) * 2
        try:
            lane.xs.copy_to_device(xs, stream=lane.stream)
            lane.ys.copy_to_device(ys, stream=lane.stream)
            mandel[grid, (16, 16), lane.stream](lane.xs, lane.ys, 200, lane.out)
            lane.out.copy_to_host(lane.host, stream=lane.stream)
            await lane.stream.async_done()
            return lane.host.copy()
        finally:
            lane.stream.synchronize()
            self.idle.put_nowait(lane)


async def main():
    server = TileServer(256, lanes=3)
    jobs = [server.tile(-2 + 0.5 * i, -1 + 0.5 * j, 0.5) for i in range(6) for j in range(4)]
    tiles = await asyncio.gather(*jobs)
    print(sum(int(t.sum()) for t in tiles))


if __name__ == "__main__":
    asyncio.run(main())
