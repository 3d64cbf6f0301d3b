"""Asynchronous tile server with awaitable CUDA streams."""
import asyncio

import numpy as np
from numba import cuda


@cuda.jit
def tone_map(dst, src, gain):
    i = cuda.grid(1)
    if i < src.size:
        v = src[i] * gain
        dst[i] = v / (1.0 + v)


class Slot:
    def __init__(self, n):
        self.stream = cuda.stream()
        self.host_in = cuda.pinned_array(n, dtype=np.float32)
        self.host_out = cuda.pinned_array(n, dtype=np.float32)
        self.dev_in = cuda.device_array(n, dtype=np.float32, stream=self.stream)
        self.dev_out = cuda.device_array(n, dtype=np.float32, stream=self.stream)


class TileServer:
    def __init__(self, tile, slots=4):
        self.tile = tile
        self.free = asyncio.Queue()
        for _ in range(slots):
            self.free.put_nowait(Slot(tile))

    async def render(self, tile_id, pixels, gain):
        slot = await self.free.get()
        try:
            slot.host_in[:] = pixels
            stream = slot.stream
            slot.dev_in.copy_to_device(slot.host_in, stream=stream)
            blocks = (self.tile + 255) // 256
            tone_map[blocks, 256, stream](slot.dev_out, slot.dev_in, gain)
            slot.dev_out.copy_to_host(slot.host_out, stream=stream)
            await stream.async_done()
            return tile_id, slot.host_out.copy()
        finally:
            self.free.put_nowait(slot)


async def render_all(tiles, gain=1.5):
    server = TileServer(tiles[0].size)
    jobs = [server.render(i, t, np.float32(gain)) for i, t in enumerate(tiles)]
    out = {}
    for done in asyncio.as_completed(jobs):
        tile_id, pixels = await done
        out[tile_id] = pixels
    return [out[i] for i in range(len(tiles))]


if __name__ == "__main__":
    data = [np.random.rand(1 << 18).astype(np.float32) for _ in range(16)]
    images = asyncio.run(render_all(data))
    print(len(images), float(images[0].mean()))
