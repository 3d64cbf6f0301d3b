"""Shuffle CuPy partitions between workers over UCXX endpoints."""
import asyncio
import struct

import cupy as cp
import numpy as np
import ucxx


class GpuChannel:
    def __init__(self, endpoint, stream):
        self.ep = endpoint
        self.stream = stream

    async def send(self, array):
        header = np.frombuffer(struct.pack("<Q", array.size), dtype=np.uint8).copy()
        await self.ep.send(header)
        self.stream.synchronize()
        await self.ep.send(array)

    async def recv(self):
        header = np.empty(8, dtype=np.uint8)
        await self.ep.recv(header)
        (size,) = struct.unpack("<Q", header.tobytes())
        with self.stream:
            array = cp.empty(size, cp.float64)
        self.stream.synchronize()
        await self.ep.recv(array)
        return array


def bucketize(values, buckets):
    keys = (values * buckets).astype(cp.int32) % buckets
    return [values[keys == b] for b in range(buckets)]


async def serve(port, stream):
    done = asyncio.Event()

    async def handler(ep):
        channel = GpuChannel(ep, stream)
        part = await channel.recv()
        with stream:
            reply = cp.sort(part)
        await channel.send(reply)
        done.set()

    listener = ucxx.create_listener(handler, port)
    await done.wait()
    listener.close()


async def shuffle(host, port, stream):
    channel = GpuChannel(await ucxx.create_endpoint(host, port), stream)
    with stream:
        values = cp.random.random(1 << 24)
        parts = bucketize(values, 2)
    await channel.send(parts[1])
    remote = await channel.recv()
    with stream:
        local = cp.sort(parts[0])
        return float(local[0]), float(remote[-1])


def main(role, host="10.0.0.2", port=13337):
    stream = cp.cuda.Stream(non_blocking=True)
    coro = serve(port, stream) if role == "server" else shuffle(host, port, stream)
    print(asyncio.run(coro))


if __name__ == "__main__":
    import sys

    main(sys.argv[1])
