from collections import OrderedDict
from typing import Any, Dict, List, Optional, Type

import torch
import torch.distributed as dist
from torch.optim import SGD, Optimizer


class OSS:
    """Optimizer state sharding: every rank updates its own part of the parameters."""

    def __init__(self, params, optim: Type[Optimizer] = SGD, group: Optional[Any] = None,
                 broadcast_buffer_size: int = 2**18, **default: Any):
        self.params: List[torch.Tensor] = list(params)
        self.group = group
        self.rank = dist.get_rank(group)
        self.world_size = dist.get_world_size(group)
        self.optim = optim(self.partition_parameters()[self.rank], **default)
        self._buffers: Dict[torch.device, torch.Tensor] = {}
        for p in self.params:
            if p.device not in self._buffers:
                self._buffers[p.device] = torch.zeros(broadcast_buffer_size, device=p.device)

    def partition_parameters(self):
        parts: Dict[int, List[torch.Tensor]] = OrderedDict((r, []) for r in range(self.world_size))
        sizes = [0] * self.world_size
        for p in self.params:
            rank = sizes.index(min(sizes))
            parts[rank].append(p)
            sizes[rank] += p.numel()
        return parts

    @torch.no_grad()
    def step(self):
        self.optim.step()
        for rank, params in self.partition_parameters().items():
            self._broadcast_rank(rank, params)

    def _copy_back(self, handle, buffer, bucket):
        handle.wait()
        offset = 0
        for p in bucket:
            p.view(-1).copy_(buffer[offset : offset + p.numel()])
            offset += p.numel()

    def _broadcast_rank(self, rank, params):
        src = dist.get_global_rank(self.group, rank) if self.group is not None else rank
        pending = []
        small = [p for p in params if p.numel() < self._buffers[p.device].numel()]
        for p in params:
            if p.numel() >= self._buffers[p.device].numel():
                dist.broadcast(p.data, src, group=self.group)
        i = 0
        while i < len(small):
            buffer = self._buffers[small[i].device]
            bucket, offset = [], 0
            while i < len(small) and offset + small[i].numel() <= buffer.numel():
                end = offset + small[i].numel()
                if rank == self.rank:
                    buffer[offset:end].copy_(small[i].data.view(-1))
                bucket.append(small[i])
                offset = end
                i += 1
            handle = dist.broadcast(buffer[:offset], src, group=self.group, async_op=True)
            pending.append((handle, buffer, bucket))
        for handle, buffer, bucket in pending:
            self._copy_back(handle, buffer, bucket)
