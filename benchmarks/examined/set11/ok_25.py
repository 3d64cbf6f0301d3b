"""Communication hooks for DistributedDataParallel: half precision all-reduce with error feedback."""
from dataclasses import dataclass, field
from typing import Dict

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


@dataclass
class CompressState:
    process_group: dist.ProcessGroup
    error: Dict[int, torch.Tensor] = field(default_factory=dict)
    start_iter: int = 100
    iteration: int = 0

    def maybe_increase_iter(self, bucket: dist.GradBucket) -> None:
        if bucket.is_last():
            self.iteration += 1


def _plain_allreduce(group: dist.ProcessGroup, tensor: torch.Tensor) -> torch.futures.Future[torch.Tensor]:
    tensor.div_(group.size())
    return dist.all_reduce(tensor, group=group, async_op=True).get_future().then(lambda fut: fut.value()[0])


def compressed_hook(state: CompressState, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    group = state.process_group
    buffer = bucket.buffer()
    state.maybe_increase_iter(bucket)
    if state.iteration < state.start_iter:
        return _plain_allreduce(group, buffer)

    index = bucket.index()
    error = state.error.get(index)
    if error is None:
        error = state.error[index] = torch.zeros_like(buffer)
    buffer.add_(error)
    compressed = buffer.to(torch.bfloat16)
    torch.sub(buffer, compressed, out=error)
    compressed.div_(group.size())

    def decompress(fut: torch.futures.Future) -> torch.Tensor:
        # runs on streams that are ordered after the all-reduce
        reduced = fut.value()[0]
        buffer.copy_(reduced)
        return buffer

    return dist.all_reduce(compressed, group=group, async_op=True).get_future().then(decompress)


def wrap(model: torch.nn.Module, device: torch.device) -> DistributedDataParallel:
    ddp = DistributedDataParallel(model.to(device), device_ids=[device.index], gradient_as_bucket_view=True)
    ddp.register_comm_hook(CompressState(dist.group.WORLD), compressed_hook)
    return ddp


def train_step(ddp: DistributedDataParallel, optimizer: torch.optim.Optimizer, inputs, target) -> torch.Tensor:
    optimizer.zero_grad(set_to_none=True)
    loss = torch.nn.functional.cross_entropy(ddp(inputs), target)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(ddp.parameters(), 1.0)
    optimizer.step()
    return loss.detach()
