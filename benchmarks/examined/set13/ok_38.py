import struct

import cupy as cp
import numpy as np


def synchronize_stream():
    cp.cuda.get_current_stream().synchronize()


class UCXComm:
    def __init__(self, ep):
        self.ep = ep

    async def write(self, frames):
        device = [isinstance(f, cp.ndarray) for f in frames]
        sizes = [int(f.nbytes) for f in frames]
        header = np.frombuffer(
            struct.pack(f"Q{len(frames)}?{len(frames)}Q", len(frames), *device, *sizes), dtype=np.uint8
        )
        host_frames = [f for f, d in zip(frames, device) if not d]
        device_frames = [f for f, d in zip(frames, device) if d]

        packed = None
        if device_frames:
            packed = cp.empty(sum(f.nbytes for f in device_frames), dtype=np.uint8)
            offset = 0
            for f in device_frames:
                flat = cp.ascontiguousarray(f).view(np.uint8).reshape(-1)
                cp.copyto(packed[offset : offset + f.nbytes], flat)
                offset += f.nbytes
            synchronize_stream()

        await self.ep.send(np.array([header.nbytes], dtype=np.uint64))
        await self.ep.send(header)
        if host_frames:
            await self.ep.send(np.concatenate([np.asarray(f).view(np.uint8).ravel() for f in host_frames]))
        if packed is not None:
            await self.ep.send(packed)
        return sum(sizes)

    async def read(self):
        length = np.empty(1, dtype=np.uint64)
        await self.ep.recv(length)
        header = np.empty(int(length[0]), dtype=np.uint8)
        await self.ep.recv(header)
        (n,) = struct.unpack_from("Q", header)
        fields = struct.unpack(f"Q{n}?{n}Q", header)
        device, sizes = fields[1 : 1 + n], fields[1 + n :]

        host_total = sum(s for s, d in zip(sizes, device) if not d)
        device_total = sum(s for s, d in zip(sizes, device) if d)
        host = np.empty(host_total, dtype=np.uint8)
        if host_total:
            await self.ep.recv(host)
        packed = None
        if device_total:
            packed = cp.empty(device_total, dtype=np.uint8)
            synchronize_stream()
            await self.ep.recv(packed)

        frames, h, d = [], 0, 0
        for is_device, size in zip(device, sizes):
            if is_device:
                frame = cp.empty(size, dtype=np.uint8)
                cp.copyto(frame, packed[d : d + size])
                d += size
            else:
                frame = host[h : h + size]
                h += size
            frames.append(frame)
        return frames
