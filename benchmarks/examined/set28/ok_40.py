"""Replicates device partitions to several peers over UCXX; sends overlap with the next partition."""
import asyncio
import sys

import cupy as cp
import numpy as np
import ucxx

PORT = 13400


async def wait_for(event):
    await asyncio.get_running_loop().run_in_executor(None, event.synchronize)


class Peer:
    def __init__(self, endpoint):
        self.lock = asyncio.Lock()
        self.ep = endpoint

    async def write(self, frame):
        await self.ep.send(np.array([frame.nbytes], dtype=np.uint64))
        await self.ep.send(frame)

    async def close(self):
        await self.ep.send(np.zeros(1, dtype=np.uint64))


class Partition:
    """An output buffer, the event behind its kernels and the sends that still read it."""

    def __init__(self, shape):
        self.data = cp.empty(shape, dtype=cp.float32)
        self.ready = cp.cuda.Event(block=True, disable_timing=True)
        self.sends = []

    async def drain(self):
        if self.sends:
            await asyncio.gather(*self.sends)
            self.sends = []


class Replicator:
    def __init__(self, peers, shape, depth=2):
        self.peers = peers
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.ring = [Partition(shape) for _ in range(depth)]
        self.index = 0

    async def _send(self, partition, peer):
        async with peer.lock:
            await wait_for(partition.ready)
            await peer.write(partition.data)

    async def push(self, block, scale):
        partition = self.ring[self.index % len(self.ring)]
        self.index += 1
        await partition.drain()
        with self.stream:
            cp.multiply(block, scale, out=partition.data)
            cp.add(partition.data, block.mean(), out=partition.data)
            partition.ready.record(self.stream)
        partition.sends = [
            asyncio.ensure_future(self._send(partition, peer)) for peer in self.peers
        ]
        await asyncio.sleep(0)

    async def close(self):
        for partition in self.ring:
            await partition.drain()
        for peer in self.peers:
            await peer.close()


async def serve(blocks, replicas):
    peers, connected = [], asyncio.Event()
    done = asyncio.Event()

    async def on_connect(endpoint):
        peers.append(Peer(endpoint))
        if len(peers) == replicas:
            connected.set()
        await done.wait()

    listener = ucxx.create_listener(on_connect, port=PORT)
    await connected.wait()
    replicator = Replicator(peers, blocks[0].shape)
    for k, block in enumerate(blocks):
        await replicator.push(block, 1.0 + 0.1 * k)
    await replicator.close()
    done.set()
    listener.close()


async def pull(host):
    ep = await ucxx.create_endpoint(host, PORT)
    sums = []
    while True:
        size = np.empty(1, dtype=np.uint64)
        await ep.recv(size)
        if size[0] == 0:
            return sums
        frame = cp.empty(int(size[0]) // 4, dtype=cp.float32)
        cp.cuda.get_current_stream().synchronize()
        await ep.recv(frame)
        sums.append(float(frame.sum()))


def main():
    if sys.argv[1] == "serve":
        rng = np.random.default_rng(2)
        blocks = [cp.asarray(rng.random((2048, 2048), dtype=np.float32)) for _ in range(6)]
        cp.cuda.Device().synchronize()
        asyncio.run(serve(blocks, replicas=int(sys.argv[2])))
    else:
        print(asyncio.run(pull(sys.argv[2])))


if __name__ == "__main__":
    main()
