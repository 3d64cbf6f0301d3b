"""Dask-style comm object that moves GPU frames through UCX."""
import asyncio

import cupy as cp
import numpy as np
import ucp


class UCXComm:
    def __init__(self, ep):
        self.ep = ep

    async def write(self, frames):
        sizes = np.array([f.nbytes for f in frames], dtype=np.uint64)
        await self.ep.send(np.array([len(frames)], dtype=np.uint64))
        await self.ep.send(sizes)
        for frame in frames:
            if frame.nbytes:
                await self.ep.send(frame)

    async def read(self):
        count = np.empty(1, dtype=np.uint64)
        await self.ep.recv(count)
        sizes = np.empty(int(count[0]), dtype=np.uint64)
        await self.ep.recv(sizes)
        frames = [cp.empty(int(n), dtype=cp.uint8) for n in sizes]
        cp.cuda.Stream.null.synchronize()
        for frame in frames:
            if frame.nbytes:
                await self.ep.recv(frame)
        return frames


def make_frames(seed, parts=8):
    rng = cp.random.default_rng(seed)
    table = rng.standard_normal((parts, 1 << 22), dtype=cp.float32)
    table -= table.mean(axis=1, keepdims=True)
    table /= table.std(axis=1, keepdims=True)
    return [cp.ascontiguousarray(row).view(cp.uint8) for row in table]


async def client(address, port, rounds=20):
    comm = UCXComm(await ucp.create_endpoint(address, port))
    for r in range(rounds):
        await comm.write(make_frames(r))


async def server(port, rounds=20):
    finished = asyncio.Event()

    async def on_connect(ep):
        comm = UCXComm(ep)
        for _ in range(rounds):
            frames = await comm.read()
            print([float(f.view(cp.float32).mean()) for f in frames])
        finished.set()

    ucp.create_listener(on_connect, port)
    await finished.wait()


if __name__ == "__main__":
    import sys

    asyncio.run(server(13338) if sys.argv[1] == "server" else client(sys.argv[2], 13338))
