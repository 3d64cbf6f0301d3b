"""Chunked signal filtering with Numba; coroutines overlap transfers and kernels."""
import asyncio
import math

import numpy as np
from numba import cuda

THREADS = 256


@cuda.jit
def fir_kernel(signal, taps, out):
    i = cuda.grid(1)
    if i < out.size:
        acc = 0.0
        for k in range(taps.size):
            j = i - k
            if j >= 0:
                acc += taps[k] * signal[j]
        out[i] = acc


class Slot:
    """Everything that one chunk in flight needs."""

    def __init__(self, chunk):
        self.stream = cuda.stream()
        self.h_in = cuda.pinned_array(chunk, dtype=np.float32)
        self.h_out = cuda.pinned_array(chunk, dtype=np.float32)
        self.d_in = cuda.device_array(chunk, dtype=np.float32)
        self.d_out = cuda.device_array(chunk, dtype=np.float32)


class FilterService:
    def __init__(self, taps, chunk, num_slots=4):
        self.chunk = chunk
        self.d_taps = cuda.to_device(np.ascontiguousarray(taps, dtype=np.float32))
        self.blocks = math.ceil(chunk / THREADS)
        self.slots = asyncio.Queue()
        for _ in range(num_slots):
            self.slots.put_nowait(Slot(chunk))
        cuda.synchronize()

    async def process(self, index, samples, sink):
        slot = await self.slots.get()
        try:
            slot.h_in[:] = samples
            slot.d_in.copy_to_device(slot.h_in, stream=slot.stream)
            fir_kernel[self.blocks, THREADS, slot.stream](slot.d_in, self.d_taps, slot.d_out)
            slot.d_out.copy_to_host(slot.h_out, stream=slot.stream)
            await slot.stream.async_done()
            sink[index] = (float(slot.h_out.max()), slot.h_out[::1024].copy())
        finally:
            self.slots.put_nowait(slot)


async def run(total, chunk):
    taps = np.hamming(64) / np.hamming(64).sum()
    service = FilterService(taps, chunk)
    rng = np.random.default_rng(5)
    signal = rng.standard_normal(total, dtype=np.float32)
    sink = {}
    tasks = [
        asyncio.create_task(service.process(k, signal[k * chunk:(k + 1) * chunk], sink))
        for k in range(total // chunk)
    ]
    await asyncio.gather(*tasks)
    return max(sink[k][0] for k in sink), np.concatenate([sink[k][1] for k in sorted(sink)])


def main():
    peak, decimated = asyncio.run(run(total=1 << 26, chunk=1 << 20))
    print(peak, decimated.shape)


if __name__ == "__main__":
    main()
