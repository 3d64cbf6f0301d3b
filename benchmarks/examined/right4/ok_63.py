import asyncio
import math

import numpy as np
from numba import cuda


@cuda.jit
def julia(x, out, rounds):
    i = cuda.grid(1)
    if i < x.size:
        z = x[i]
        for _ in range(rounds):
            z = z * z - 0.7
        out[i] = z


class Lane:
    def __init__(self, n):
        self.stream = cuda.stream()
        self.host_in = cuda.pinned_array(n, dtype=np.float32)
        self.host_out = cuda.pinned_array(n, dtype=np.float32)
        self.dev_in = cuda.device_array(n, dtype=np.float32)
        self.dev_out = cuda.device_array(n, dtype=np.float32)

    def submit(self, values, rounds):
        self.host_in[:] = values
        self.dev_in.copy_to_device(self.host_in, stream=self.stream)
        julia[math.ceil(values.size / 256), 256, self.stream](self.dev_in, self.dev_out, rounds)
        self.dev_out.copy_to_host(self.host_out, stream=self.stream)


class Service:
    def __init__(self, lanes, n):
        self.lanes = asyncio.Queue()
        for _ in range(lanes):
            self.lanes.put_nowait(Lane(n))

    async def compute(self, values, rounds):
        lane = await self.lanes.get()
        lane.submit(values, rounds)
        await lane.stream.async_done()
        result = lane.host_out.copy()
        self.lanes.put_nowait(lane)
        return result


async def main(n=1 << 20):
    service = Service(3, n)
    rng = np.random.default_rng(0)
    inputs = [rng.random(n, dtype=np.float32) for _ in range(12)]
    outs = await asyncio.gather(*(service.compute(x, 200) for x in inputs))
    return [float(o.mean()) for o in outs]


if __name__ == "__main__":
    print(asyncio.run(main()))
