import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import AsyncGenerator, Dict, Generator, Tuple

import cupy as cp
import torch
from cupy.cuda import nccl


class BroadcastOperation:
    """One bucket on its way from rank 0 to all others."""

    def __init__(self, engine: "NCCLCheckpointEngine", bucket: cp.ndarray, metadata: Dict):
        self.engine = engine
        self.bucket = bucket
        self.metadata = metadata
        loop = asyncio.get_running_loop()
        self._task = loop.run_in_executor(engine.executor, self._run)

    def _run(self) -> None:
        self.engine.device.use()
        if self.engine.rank == 0:
            self.engine.meta_channel.publish(self.metadata)
        else:
            self.metadata = self.engine.meta_channel.receive()
        ptr = self.bucket.data.ptr
        self.engine.comm.broadcast(
            ptr, ptr, self.bucket.size, nccl.NCCL_UINT8, 0, self.engine.comm_stream.ptr
        )

    async def wait_for_complete(self) -> Dict:
        await self._task
        return self.metadata


class NCCLCheckpointEngine:
    def __init__(self, bucket_size: int, rank: int, world_size: int, unique_id, meta_channel, device_id: int):
        self.rank = rank
        self.bucket_size = bucket_size
        self.meta_channel = meta_channel
        self.device = cp.cuda.Device(device_id)
        self.device.use()
        self.comm = nccl.NcclCommunicator(world_size, unique_id, rank)
        self.comm_stream = cp.cuda.Stream(non_blocking=True)
        self.executor = ThreadPoolExecutor(max_workers=1)
        self.send_buf = cp.zeros(bucket_size, dtype=cp.uint8)
        self.recv_buf = cp.zeros(bucket_size, dtype=cp.uint8)

    async def send_weights(self, weights: Generator[Tuple[str, torch.Tensor], None, None]) -> None:
        send_buf, recv_buf = self.send_buf, self.recv_buf
        broadcast_op = None
        meta: Dict = {}
        offset = 0
        for name, weight in weights:
            if offset + weight.nbytes > self.bucket_size:
                torch.cuda.current_stream().synchronize()
                cp.cuda.get_current_stream().synchronize()
                if broadcast_op is not None:
                    await broadcast_op.wait_for_complete()
                broadcast_op = BroadcastOperation(self, send_buf, {"bucket": meta, "is_last": False})
                send_buf, recv_buf = recv_buf, send_buf
                meta, offset = {}, 0
            meta[name] = (tuple(weight.shape), weight.dtype, offset)
            send_buf[offset:offset + weight.nbytes] = cp.asarray(
                weight.contiguous().view(-1).view(torch.uint8)
            )
            offset += weight.nbytes
        torch.cuda.current_stream().synchronize()
        cp.cuda.get_current_stream().synchronize()
        if broadcast_op is not None:
            await broadcast_op.wait_for_complete()
        last = BroadcastOperation(self, send_buf, {"bucket": meta, "is_last": True})
        await last.wait_for_complete()

    async def receive_weights(self) -> AsyncGenerator[Tuple[str, torch.Tensor], None]:
        send_buf, recv_buf = self.send_buf, self.recv_buf
        op = BroadcastOperation(self, recv_buf, {})
        while True:
            metadata = await op.wait_for_complete()
            if not metadata["is_last"]:
                op = BroadcastOperation(self, send_buf, {})
            for name, (shape, dtype, offset) in metadata["bucket"].items():
                nbytes = dtype.itemsize * torch.Size(shape).numel()
                raw = torch.as_tensor(recv_buf[offset:offset + nbytes], device=f"cuda:{self.device.id}")
                yield name, raw.view(dtype).view(shape).clone()
            if metadata["is_last"]:
                return
            torch.cuda.current_stream().synchronize()
            send_buf, recv_buf = recv_buf, send_buf
