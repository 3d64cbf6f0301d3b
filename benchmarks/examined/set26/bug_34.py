"""UCX comm for GPU frames, and a worker that produces them."""
import asyncio
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import cupy as cp
import ucp


def is_cuda(frame):
    return hasattr(frame, "__cuda_array_interface__")


def synchronize_stream():
    cp.cuda.Stream.ptds.synchronize()


class UCX:
    def __init__(self, ep):
        self.ep = ep

    async def write(self, frames):
        header = np.array([len(frames)], dtype=np.int64)
        sizes = np.array([f.nbytes for f in frames], dtype=np.int64)
        cudas = np.array([is_cuda(f) for f in frames], dtype=np.int64)
        await self.ep.send(header)
        await self.ep.send(sizes)
        await self.ep.send(cudas)
        if cudas.any():
            synchronize_stream()
        for frame in frames:
            await self.ep.send(frame)
        return int(sizes.sum())


class Executor:
    """Runs tasks in one thread, on that thread's default stream."""

    def __init__(self):
        self.pool = ThreadPoolExecutor(1)

    def _call(self, fn, args):
        with cp.cuda.Stream.ptds:
            return fn(*args)

    async def run(self, fn, *args):
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.pool, self._call, fn, args)


def shuffle_partition(seed, n, parts):
    keys = cp.random.RandomState(seed).randint(0, 1 << 30, n, dtype=cp.int32)
    keys = cp.sort(keys)
    return [cp.ascontiguousarray(keys[i::parts]) for i in range(parts)]


async def serve_partition(ep, nparts=4, n=1 << 26):
    comm = UCX(ep)
    executor = Executor()
    sent = 0
    for seed in range(8):
        frames = await executor.run(shuffle_partition, seed, n, nparts)
        sent += await comm.write(frames)
    await ep.close()
    print("sent", sent)


async def main(port=13337):
    done = asyncio.Event()

    async def handler(ep):
        await serve_partition(ep)
        done.set()

    listener = ucp.create_listener(handler, port)
    await done.wait()
    listener.close()


if __name__ == "__main__":
    asyncio.run(main())
