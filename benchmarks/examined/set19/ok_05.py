"""Trainer side of a weight sync: packed chunks are broadcast with a bounded number in flight."""
from collections import deque

import torch
from cupy.cuda import nccl


class InflightChunk:
    __slots__ = ("buffer", "event")

    def __init__(self, nbytes, device):
        self.buffer = torch.empty(nbytes, dtype=torch.uint8, device=device)
        self.event = torch.cuda.Event()


class RolloutWeightSync:
    def __init__(self, unique_id, world_size, chunk_bytes, max_inflight=2):
        self.device = torch.device("cuda", torch.cuda.current_device())
        self.comm = nccl.NcclCommunicator(world_size, unique_id, 0)
        self.comm_stream = torch.cuda.Stream(device=self.device)
        self.chunk_bytes = chunk_bytes
        self.free = deque(InflightChunk(chunk_bytes, self.device) for _ in range(max_inflight))
        self.busy = deque()

    def _acquire(self):
        if not self.free:
            chunk = self.busy.popleft()
            torch.cuda.current_stream().wait_event(chunk.event)
            self.free.append(chunk)
        return self.free.popleft()

    def _launch(self, chunk, used):
        self.comm_stream.wait_stream(torch.cuda.current_stream())
        self.comm.broadcast(
            chunk.buffer.data_ptr(),
            chunk.buffer.data_ptr(),
            used,
            nccl.NCCL_UINT8,
            0,
            self.comm_stream.cuda_stream,
        )
        chunk.event.record(self.comm_stream)
        self.busy.append(chunk)

    @torch.no_grad()
    def send(self, named_params):
        chunk, used = self._acquire(), 0
        manifest = []
        for name, param in named_params:
            data = param.detach().to(torch.bfloat16).contiguous().view(-1).view(torch.uint8)
            offset = 0
            while offset < data.numel():
                if used == self.chunk_bytes:
                    self._launch(chunk, used)
                    chunk, used = self._acquire(), 0
                n = min(self.chunk_bytes - used, data.numel() - offset)
                chunk.buffer[used : used + n].copy_(data[offset : offset + n])
                manifest.append((name, offset, n))
                used += n
                offset += n
        if used:
            self._launch(chunk, used)
        else:
            self.free.append(chunk)
        return manifest

    def finish(self):
        while self.busy:
            chunk = self.busy.popleft()
            chunk.event.synchronize()
            self.free.append(chunk)


class RolloutReceiver:
    def __init__(self, unique_id, world_size, rank, chunk_bytes):
        self.comm = nccl.NcclCommunicator(world_size, unique_id, rank)
        self.buffers = [torch.empty(chunk_bytes, dtype=torch.uint8, device="cuda") for _ in range(2)]
        self.stream = torch.cuda.Stream()

    def receive(self, chunk_sizes, load_chunk):
        """The chunk is loaded on the receiving stream: one queue orders both buffers."""
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            for i, used in enumerate(chunk_sizes):
                buf = self.buffers[i % 2]
                self.comm.broadcast(
                    buf.data_ptr(), buf.data_ptr(), used, nccl.NCCL_UINT8, 0, self.stream.cuda_stream
                )
                load_chunk(i, buf[:used])
        torch.cuda.current_stream().wait_stream(self.stream)


def sync_after_step(model, optimizer, loss, sync):
    loss.backward()
    optimizer.step()
    manifest = sync.send(model.named_parameters())
    optimizer.zero_grad(set_to_none=True)
    sync.finish()
    return manifest
