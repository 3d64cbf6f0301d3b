"""Peer-to-peer shuffle of device partitions between two workers over UCXX."""
import asyncio
import sys

import cupy as cp
import numpy as np
import ucxx

PORT = 13337


class CommClosed(Exception):
    pass


class UCXComm:
    """Sends and receives lists of device frames on one endpoint."""

    def __init__(self, endpoint):
        self.ep = endpoint

    async def write(self, frames):
        await self.ep.send(np.array([len(frames)], dtype=np.uint64))
        sizes = np.array([f.nbytes for f in frames], dtype=np.uint64)
        await self.ep.send(sizes)
        for frame in frames:
            if frame.nbytes > 0:
                await self.ep.send(frame)

    async def read(self):
        count = np.empty(1, dtype=np.uint64)
        await self.ep.recv(count)
        if count[0] == 0:
            raise CommClosed
        sizes = np.empty(int(count[0]), dtype=np.uint64)
        await self.ep.recv(sizes)
        frames = [cp.empty(int(n), dtype=cp.uint8) for n in sizes]
        cp.cuda.get_current_stream().synchronize()
        for frame in frames:
            if frame.nbytes > 0:
                await self.ep.recv(frame)
        return frames

    async def close(self):
        await self.ep.send(np.zeros(1, dtype=np.uint64))


class Partitioner:
    def __init__(self, parts):
        self.parts = parts
        self.stream = cp.cuda.Stream(non_blocking=True)

    def split(self, block):
        with self.stream:
            values = block + block.T
            bucket = (values * self.parts).astype(cp.int32) % self.parts
            flat, owner = values.ravel(), bucket.ravel()
            order = cp.argsort(owner)
            ordered = flat[order]
            chunk = ordered.size // self.parts
            return [ordered[k * chunk : (k + 1) * chunk] for k in range(self.parts)]


async def serve(blocks, parts):
    partitioner = Partitioner(parts)
    finished = asyncio.Event()

    async def on_connect(endpoint):
        comm = UCXComm(endpoint)
        for block in blocks:
            await comm.write(partitioner.split(block))
        await comm.close()
        finished.set()

    listener = ucxx.create_listener(on_connect, port=PORT)
    await finished.wait()
    listener.close()


async def pull(host):
    comm = UCXComm(await ucxx.create_endpoint(host, PORT))
    totals = []
    try:
        while True:
            frames = await comm.read()
            totals.append([float(f.view(cp.float32).sum()) for f in frames])
    except CommClosed:
        return totals


def main():
    if sys.argv[1] == "serve":
        rng = np.random.default_rng(6)
        blocks = [cp.asarray(rng.random((4000, 4000), dtype=np.float32)) for _ in range(8)]
        cp.cuda.Device().synchronize()
        asyncio.run(serve(blocks, parts=4))
    else:
        print(asyncio.run(pull(sys.argv[2])))


if __name__ == "__main__":
    main()
