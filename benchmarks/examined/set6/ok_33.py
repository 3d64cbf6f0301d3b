import asyncio
import pickle

import cupy as cp
import numpy as np
import ucp


def synchronize_device() -> None:
    cp.cuda.runtime.deviceSynchronize()


class UCXChannel:
    """Point to point transport for dictionaries of device arrays."""

    def __init__(self, ep: "ucp.Endpoint"):
        self.ep = ep

    async def send(self, arrays: dict) -> None:
        meta = {k: (a.shape, a.dtype.str) for k, a in arrays.items()}
        blob = np.frombuffer(pickle.dumps(meta), dtype=np.uint8).copy()
        await self.ep.send(np.array([blob.nbytes], dtype=np.uint64))
        await self.ep.send(blob)
        synchronize_device()
        contiguous = [cp.ascontiguousarray(a) for a in arrays.values()]
        synchronize_device()
        for array in contiguous:
            if array.nbytes:
                await self.ep.send(array)

    async def recv(self) -> dict:
        size = np.empty(1, dtype=np.uint64)
        await self.ep.recv(size)
        blob = np.empty(int(size[0]), dtype=np.uint8)
        await self.ep.recv(blob)
        meta = pickle.loads(blob.tobytes())
        arrays = {k: cp.empty(shape, dtype=dtype) for k, (shape, dtype) in meta.items()}
        synchronize_device()
        for array in arrays.values():
            if array.nbytes:
                await self.ep.recv(array)
        return arrays


class ShuffleWorker:
    def __init__(self, port: int):
        self.port = port
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.received = asyncio.Queue()

    async def _serve(self, ep):
        self.received.put_nowait(await UCXChannel(ep).recv())
        await ep.close()

    async def push(self, host: str, keys: cp.ndarray, values: cp.ndarray, part: int, parts: int):
        self.stream.wait_event(cp.cuda.get_current_stream().record())
        with self.stream:
            keep = keys % parts == part
            shard = {"keys": keys[keep], "values": cp.sqrt(values[keep])}
        ep = await ucp.create_endpoint(host, self.port)
        await UCXChannel(ep).send(shard)
        await ep.close()

    async def collect(self, peers: int) -> float:
        listener = ucp.create_listener(self._serve, self.port)
        total = 0.0
        for _ in range(peers):
            shard = await self.received.get()
            total += float(shard["values"].sum())
        listener.close()
        return total
