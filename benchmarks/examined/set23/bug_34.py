"""Shuffle partitions between workers over UCX."""
import asyncio

import cupy as cp
import numpy as np
import rmm
import ucp
from rmm.pylibrmm.stream import Stream


class Partitioner:
    def __init__(self, table, n_parts):
        self.cp_stream = cp.cuda.Stream(non_blocking=True)
        self.stream = Stream(obj=self.cp_stream)
        with self.cp_stream:
            self.table = cp.asarray(table)
            self.owner = (self.table[:, 0].view(cp.uint32) % n_parts).astype(cp.int32)
        self.cp_stream.synchronize()
        self.n_parts = n_parts

    def rows_of(self, part):
        with self.cp_stream:
            return cp.flatnonzero(self.owner == part)

    def pack(self, part):
        """Rows of one partition as a contiguous device buffer."""
        rows = self.rows_of(part)
        width = self.table.shape[1]
        buf = rmm.DeviceBuffer(size=rows.size * width * 4, stream=self.stream)
        with self.cp_stream:
            out = cp.asarray(buf).view(cp.float32).reshape(rows.size, width)
            cp.take(self.table, rows, axis=0, out=out)
        return buf, rows.size


class ShuffleClient:
    def __init__(self, endpoints, partitioner):
        self.endpoints = endpoints
        self.partitioner = partitioner

    async def _send_one(self, part):
        ep = self.endpoints[part]
        buf, n_rows = self.partitioner.pack(part)
        header = np.array([part, n_rows], dtype=np.int64)
        await ep.send(header)
        if n_rows:
            await ep.send(buf)

    async def run(self):
        for part in range(self.partitioner.n_parts):
            await self._send_one(part)


async def main(addresses, table):
    endpoints = [await ucp.create_endpoint(host, port) for host, port in addresses]
    client = ShuffleClient(endpoints, Partitioner(table, len(addresses)))
    await client.run()
    for ep in endpoints:
        await ep.close()


if __name__ == "__main__":
    data = np.random.rand(1 << 20, 32).astype(np.float32)
    asyncio.run(main([("10.0.0.2", 13337), ("10.0.0.3", 13337)], data))
