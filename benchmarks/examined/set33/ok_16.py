"""Spectral service on asyncio with a few lanes on the GPU."""
import asyncio

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda import gpuarray
from pycuda.elementwise import ElementwiseKernel

_window = ElementwiseKernel(
    "float *out, const float *x, float inv_n",
    "out[i] = x[i] * (0.5f - 0.5f * cosf(6.2831853f * i * inv_n))",
    "window",
)
_power = ElementwiseKernel("float *out, const float *x", "out[i] = logf(1.0f + x[i] * x[i])", "power")


class Lane:
    """Buffers and a stream for one request at a time."""

    def __init__(self, n):
        self.stream = drv.Stream()
        self.h_in = drv.pagelocked_empty(n, np.float32)
        self.h_out = drv.pagelocked_empty(n, np.float32)
        self.d_x = gpuarray.empty(n, np.float32)
        self.d_w = gpuarray.empty(n, np.float32)
        self.d_p = gpuarray.empty(n, np.float32)
        self.done = drv.Event(drv.event_flags.DISABLE_TIMING)

    def launch(self, samples):
        self.h_in[:] = samples
        self.d_x.set_async(self.h_in, stream=self.stream)
        _window(self.d_w, self.d_x, np.float32(1.0 / len(samples)), stream=self.stream)
        _power(self.d_p, self.d_w, stream=self.stream)
        self.d_p.get_async(stream=self.stream, ary=self.h_out)
        self.done.record(self.stream)


class SpectralService:
    def __init__(self, n=1 << 16, lanes=4):
        self.n = n
        self._lanes = [Lane(n) for _ in range(lanes)]
        self._idle = None

    async def start(self):
        self._idle = asyncio.Queue()
        for lane in self._lanes:
            self._idle.put_nowait(lane)

    async def process(self, samples):
        lane = await self._idle.get()
        lane.launch(samples)
        while not lane.done.query():
            await asyncio.sleep(0)
        result = lane.h_out.copy()
        self._idle.put_nowait(lane)
        return result

    async def mean_power(self, samples):
        return float((await self.process(samples)).mean())


async def serve(batches):
    service = SpectralService(n=len(batches[0]))
    await service.start()
    return await asyncio.gather(*(service.mean_power(b) for b in batches))


def main(count=64, n=1 << 16):
    rng = np.random.default_rng(2)
    batches = [rng.standard_normal(n).astype(np.float32) for _ in range(count)]
    return asyncio.run(serve(batches))


if __name__ == "__main__":
    print(main()[:4])
