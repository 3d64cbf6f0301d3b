from typing import Dict, List, Optional

import torch
from cupy.cuda import nccl

_NCCL_DTYPE = {
    torch.float32: nccl.NCCL_FLOAT32,
    torch.float16: nccl.NCCL_FLOAT16,
    torch.uint8: nccl.NCCL_UINT8,
    torch.int64: nccl.NCCL_INT64,
}


class TorchWorkNCCL:
    def __init__(self, stream: torch.cuda.Stream):
        self.stream = stream
        self.start_event = torch.cuda.Event()
        self.end_event = torch.cuda.Event()

    def record_start(self) -> None:
        self.start_event.record(self.stream)

    def record_end(self) -> None:
        self.end_event.record(self.stream)

    def is_completed(self) -> bool:
        return self.end_event.query()

    def wait(self) -> None:
        torch.cuda.current_stream().wait_event(self.end_event)


class TorchCommNCCL:
    def __init__(self, unique_id, rank: int, world_size: int, device: torch.device):
        self.rank = rank
        self.world_size = world_size
        self.device = device
        self.comm = nccl.NcclCommunicator(world_size, unique_id, rank)
        self.internal_stream = torch.cuda.Stream(device)
        self.dependency_event = torch.cuda.Event()

    def _operation_stream(self, async_op: bool) -> torch.cuda.Stream:
        current = torch.cuda.current_stream(self.device)
        if not async_op:
            return current
        self.dependency_event.record(current)
        self.internal_stream.wait_event(self.dependency_event)
        return self.internal_stream

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor,
                          async_op: bool = False) -> TorchWorkNCCL:
        input = input.contiguous()
        stream = self._operation_stream(async_op)
        work = TorchWorkNCCL(stream)
        work.record_start()
        self.comm.allGather(input.data_ptr(), output.data_ptr(), input.numel(),
                            _NCCL_DTYPE[input.dtype], stream.cuda_stream)
        work.record_end()
        if not async_op:
            work.wait()
        return work

    def all_reduce(self, tensor: torch.Tensor, async_op: bool = False) -> TorchWorkNCCL:
        stream = self._operation_stream(async_op)
        work = TorchWorkNCCL(stream)
        work.record_start()
        self.comm.allReduce(tensor.data_ptr(), tensor.data_ptr(), tensor.numel(),
                            _NCCL_DTYPE[tensor.dtype], nccl.NCCL_SUM, stream.cuda_stream)
        work.record_end()
        if not async_op:
            work.wait()
        return work


class ShardedParam:
    def __init__(self, shard: torch.Tensor, world_size: int):
        self.shard = shard
        self.full = torch.empty(world_size * shard.numel(), dtype=torch.float16, device=shard.device)
        self.work: Optional[TorchWorkNCCL] = None


class ShardedModule:
    def __init__(self, comm: TorchCommNCCL, params: Dict[str, ShardedParam]):
        self.comm = comm
        self.params = params

    def unshard(self) -> None:
        for p in self.params.values():
            p.work = self.comm.all_gather_single(p.full, p.shard.to(torch.float16), async_op=True)

    def wait_unshard(self) -> List[torch.Tensor]:
        for p in self.params.values():
            p.work.wait()
        return [p.full for p in self.params.values()]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.unshard()
        h = torch.nn.functional.layer_norm(x.float(), x.shape[-1:]).to(torch.float16)
        for full in self.wait_unshard():
            h = torch.relu(h @ full.view(h.shape[-1], -1))
        return h
