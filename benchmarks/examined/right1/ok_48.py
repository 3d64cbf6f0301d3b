"""Asynchronous smoothing service over a fixed number of GPU lanes."""
import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import cuda

N = 1 << 16
TPB = 256


@cuda.jit
def smooth(src, dst):
    i = cuda.grid(1)
    if 0 < i < src.size - 1:
        dst[i] = (src[i - 1] + src[i] + src[i + 1]) / 3.0
    elif i < src.size:
        dst[i] = src[i]


@dataclass
class Lane:
    stream: Any
    host: Any
    src: Any
    dst: Any

    @classmethod
    def create(cls):
        return cls(
            cuda.stream(),
            cuda.pinned_array(N, np.float32),
            cuda.device_array(N, np.float32),
            cuda.device_array(N, np.float32),
        )


async def smooth_block(pool, block):
    lane = await pool.get()
    try:
        lane.host[:] = block
        lane.src.copy_to_device(lane.host, stream=lane.stream)
        smooth[(N + TPB - 1) // TPB, TPB, lane.stream](lane.src, lane.dst)
        lane.dst.copy_to_host(lane.host, stream=lane.stream)
        await lane.stream.async_done()
        return lane.host.copy()
    except BaseException:
        lane.stream.synchronize()
        raise
    finally:
        pool.put_nowait(lane)


async def main(requests=32, lanes=3):
    pool = asyncio.Queue()
    for _ in range(lanes):
        pool.put_nowait(Lane.create())
    rng = np.random.default_rng(8)
    blocks = [rng.random(N, dtype=np.float32) for _ in range(requests)]
    outs = await asyncio.gather(*(smooth_block(pool, b) for b in blocks))
    return [float(o.mean()) for o in outs]


if __name__ == "__main__":
    print(asyncio.run(main()))
