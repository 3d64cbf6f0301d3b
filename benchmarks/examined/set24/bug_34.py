"""Sends shuffled partitions between workers over UCX."""
import asyncio

import cupy as cp
import numpy as np
import ucp

PORT = 13337


def synchronize_stream():
    cp.cuda.Stream.null.synchronize()


class PartitionSender:
    def __init__(self, endpoint):
        self.ep = endpoint
        self.stream = cp.cuda.Stream(non_blocking=True)

    def pack(self, table, part_ids, n_parts):
        with self.stream:
            order = cp.argsort(part_ids)
            packed = table[order]
            counts = cp.bincount(part_ids, minlength=n_parts)
            sizes = counts.get(stream=self.stream)
            bounds = np.concatenate([[0], np.cumsum(sizes)])
            return [cp.ascontiguousarray(packed[a:b]) * 1 for a, b in zip(bounds[:-1], bounds[1:])]

    async def write(self, frames):
        sizes = np.array([f.nbytes for f in frames], dtype=np.uint64)
        await self.ep.send(np.array([len(frames)], dtype=np.uint64))
        await self.ep.send(sizes)
        if any(f.nbytes and hasattr(f, "__cuda_array_interface__") for f in frames):
            synchronize_stream()
        for frame in frames:
            if frame.nbytes:
                await self.ep.send(frame)


async def read(ep):
    n = np.empty(1, dtype=np.uint64)
    await ep.recv(n)
    sizes = np.empty(int(n[0]), dtype=np.uint64)
    await ep.recv(sizes)
    frames = [cp.empty(int(s), dtype=cp.uint8) for s in sizes]
    cp.cuda.Stream.null.synchronize()
    for f in frames:
        if f.nbytes:
            await ep.recv(f)
    return frames


async def serve(done):
    async def handler(ep):
        frames = await read(ep)
        print("received", sum(f.nbytes for f in frames))
        done.set()
    return ucp.create_listener(handler, PORT)


async def main():
    done = asyncio.Event()
    listener = await serve(done)
    ep = await ucp.create_endpoint(ucp.get_address(), PORT)
    table = cp.random.random((1 << 20, 16), dtype=cp.float32)
    part_ids = cp.random.randint(0, 8, 1 << 20)
    cp.cuda.Device().synchronize()
    sender = PartitionSender(ep)
    await sender.write(sender.pack(table, part_ids, 8))
    await done.wait()
    listener.close()


if __name__ == "__main__":
    asyncio.run(main())
