import asyncio
import os
from concurrent.futures import ThreadPoolExecutor

os.environ["CUPY_CUDA_PER_THREAD_DEFAULT_STREAM"] = "1"

import cupy as cp  # noqa: E402
import numpy as np  # noqa: E402
import ucp  # noqa: E402


class UCXComm:
    def __init__(self, ep):
        self.ep = ep

    async def write(self, frames):
        header = np.array([len(frames)] + [f.nbytes for f in frames], dtype=np.uint64)
        await self.ep.send(np.array([header.size], dtype=np.uint64))
        await self.ep.send(header)
        if any(hasattr(f, "__cuda_array_interface__") for f in frames):
            cp.cuda.Stream.ptds.synchronize()
        for frame in frames:
            await self.ep.send(frame)

    async def read(self):
        size = np.empty(1, dtype=np.uint64)
        await self.ep.recv(size)
        header = np.empty(int(size[0]), dtype=np.uint64)
        await self.ep.recv(header)
        frames = [cp.empty(int(n), dtype=cp.uint8) for n in header[1:]]
        cp.cuda.Stream.ptds.synchronize()
        for frame in frames:
            await self.ep.recv(frame)
        return frames


def correlate(block, kernel):
    spectrum = cp.fft.rfft(block, axis=-1) * cp.conj(cp.fft.rfft(kernel, n=block.shape[-1]))
    result = cp.fft.irfft(spectrum, n=block.shape[-1], axis=-1)
    return cp.ascontiguousarray(result.astype(cp.float32)).view(cp.uint8).ravel()


class Worker:
    def __init__(self, kernel, threads=2):
        self.kernel = kernel
        self.executor = ThreadPoolExecutor(threads)
        self.data = {}

    async def execute(self, key, block):
        loop = asyncio.get_running_loop()
        self.data[key] = await loop.run_in_executor(self.executor, correlate, block, self.kernel)

    async def get_data(self, comm, keys):
        await comm.write([self.data[key] for key in keys])

    async def handle(self, ep):
        comm = UCXComm(ep)
        request = np.empty(1, dtype=np.uint64)
        while True:
            await ep.recv(request)
            if request[0] == 0:
                break
            key = int(request[0])
            block = cp.random.standard_normal((64, 1 << 16))
            cp.cuda.Stream.ptds.synchronize()
            await self.execute(key, block)
            await self.get_data(comm, [key])
            del self.data[key]
        await ep.close()


async def main(port=13337):
    kernel = cp.hanning(1024)
    cp.cuda.Stream.ptds.synchronize()
    worker = Worker(kernel)
    listener = ucp.create_listener(worker.handle, port)
    while not listener.closed():
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main())
