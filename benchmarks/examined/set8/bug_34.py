import asyncio
import struct

import cupy as cp
import numpy as np
import ucp


def is_cuda(frame):
    return hasattr(frame, "__cuda_array_interface__")


def nbytes(frame):
    return frame.nbytes if hasattr(frame, "nbytes") else len(frame)


def to_frames(part):
    header = np.array([part.dtype.num, part.ndim, *part.shape], dtype=np.int64)
    return [header.view(np.uint8), cp.ascontiguousarray(part).ravel().view(cp.uint8)]


class UCXComm:

    def __init__(self, ep):
        self.ep = ep

    async def write(self, frames):
        nframes = len(frames)
        cuda_frames = tuple(is_cuda(f) for f in frames)
        sizes = tuple(nbytes(f) for f in frames)
        send_frames = [f for f, n in zip(frames, sizes) if n]

        await self.ep.send(np.frombuffer(struct.pack("Q", nframes), dtype=np.uint8))
        await self.ep.send(np.frombuffer(
            struct.pack(nframes * "?" + nframes * "Q", *cuda_frames, *sizes), dtype=np.uint8))

        for frame in send_frames:
            await self.ep.send(frame)
        return sum(sizes)

    async def read(self):
        head = np.empty(8, dtype=np.uint8)
        await self.ep.recv(head)
        (nframes,) = struct.unpack("Q", head.tobytes())
        fmt = nframes * "?" + nframes * "Q"
        desc = np.empty(struct.calcsize(fmt), dtype=np.uint8)
        await self.ep.recv(desc)
        fields = struct.unpack(fmt, desc.tobytes())
        flags, sizes = fields[:nframes], fields[nframes:]
        frames = [cp.empty(n, dtype=cp.uint8) if c else np.empty(n, dtype=np.uint8)
                  for c, n in zip(flags, sizes)]
        cp.cuda.Stream.null.synchronize()
        for frame, n in zip(frames, sizes):
            if n:
                await self.ep.recv(frame)
        return frames


async def shuffle_out(comms, table, keys):
    bucket = keys % len(comms)
    jobs = []
    for i, comm in enumerate(comms):
        part = table[bucket == i] * 1.0
        jobs.append(comm.write(to_frames(part)))
    return sum(await asyncio.gather(*jobs))


async def connect(addresses):
    return [UCXComm(await ucp.create_endpoint(host, port)) for host, port in addresses]
