"""Asyncio front end: one coroutine per frame awaits its Numba stream."""
import asyncio

import numpy as np
from numba import cuda


@cuda.jit
def gamma(src, dst, g):
    i, j = cuda.grid(2)
    if i < src.shape[0] and j < src.shape[1]:
        dst[i, j] = (src[i, j] / 255.0) ** g * 255.0


class Workspace:
    def __init__(self, shape):
        self.stream = cuda.stream()
        self.inp = cuda.pinned_array(shape, np.float32)
        self.out = cuda.pinned_array(shape, np.float32)
        self.d_inp = cuda.device_array(shape, np.float32)
        self.d_out = cuda.device_array(shape, np.float32)


class GammaServer:
    def __init__(self, shape, workers):
        self.shape = shape
        self.idle = asyncio.Queue()
        for _ in range(workers):
            self.idle.put_nowait(Workspace(shape))

    async def correct(self, frame, g):
        ws = await self.idle.get()
        try:
            ws.inp[:] = frame
            ws.d_inp.copy_to_device(ws.inp, stream=ws.stream)
            grid = tuple((s + 15) // 16 for s in self.shape)
            gamma[grid, (16, 16), ws.stream](ws.d_inp, ws.d_out, g)
            ws.d_out.copy_to_host(ws.out, stream=ws.stream)
            await asyncio.shield(ws.stream.async_done())
            return ws.out.copy()
        finally:
            ws.stream.synchronize()
            self.idle.put_nowait(ws)


async def main():
    server = GammaServer((480, 640), 3)
    frames = [np.full((480, 640), v, np.float32) for v in range(0, 250, 25)]
    outs = await asyncio.gather(*(server.correct(f, 2.2) for f in frames))
    print([float(o.mean()) for o in outs])


if __name__ == "__main__":
    asyncio.run(main())
