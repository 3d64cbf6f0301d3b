from contextlib import contextmanager
from typing import Dict, List, Optional

import torch
import torch.distributed as dist
from torch import nn


class Bucket:
    def __init__(self, params: List[nn.Parameter], data: torch.Tensor, group, overlap: bool):
        self.params = set(params)
        self.params_with_grad = set()
        self.data = data
        self.data_parallel_group = group
        self.overlap_grad_reduce = overlap
        self.communication_handle: Optional[dist.Work] = None

    def reset(self) -> None:
        self.params_with_grad = set()
        self.communication_handle = None

    def start_grad_sync(self) -> None:
        self.data /= dist.get_world_size(self.data_parallel_group)
        self.communication_handle = dist.all_reduce(
            self.data, group=self.data_parallel_group, async_op=self.overlap_grad_reduce
        )

    def finish_grad_sync(self) -> None:
        if not self.overlap_grad_reduce:
            self.start_grad_sync()
            return
        assert self.communication_handle is not None
        self.communication_handle.wait()

    def register_grad_ready(self, param: nn.Parameter) -> None:
        self.params_with_grad.add(param)
        if len(self.params_with_grad) == len(self.params):
            self.start_grad_sync()


class DistributedDataParallel(nn.Module):
    def __init__(self, module: nn.Module, group=None, bucket_size=1 << 22, overlap=True):
        super().__init__()
        self.module = module
        self.overlap_grad_reduce = overlap
        self.is_last_microbatch = True
        self.buckets: List[Bucket] = []
        self.param_to_bucket: Dict[nn.Parameter, Bucket] = {}
        params = [p for p in reversed(list(module.parameters())) if p.requires_grad]
        self.buffer = torch.zeros(sum(p.numel() for p in params), device=params[0].device)
        start = offset = 0
        pending: List[nn.Parameter] = []
        for i, p in enumerate(params):
            p.main_grad = self.buffer[offset : offset + p.numel()].view_as(p)
            offset += p.numel()
            pending.append(p)
            if offset - start >= bucket_size or i == len(params) - 1:
                bucket = Bucket(pending, self.buffer[start:offset], group, overlap)
                self.buckets.append(bucket)
                self.param_to_bucket.update({q: bucket for q in pending})
                pending, start = [], offset
            p.register_post_accumulate_grad_hook(self._param_hook)

    def _param_hook(self, param: nn.Parameter) -> None:
        param.main_grad.add_(param.grad)
        param.grad = None
        if self.overlap_grad_reduce and self.is_last_microbatch:
            self.param_to_bucket[param].register_grad_ready(param)

    @contextmanager
    def no_sync(self):
        self.is_last_microbatch = False
        try:
            yield
        finally:
            self.is_last_microbatch = True

    def finish_grad_sync(self) -> None:
        for bucket in self.buckets:
            bucket.finish_grad_sync()

    def zero_grad_buffer(self) -> None:
        self.buffer.zero_()
        for bucket in self.buckets:
            bucket.reset()

    def forward(self, *args):
        return self.module(*args)


def train_step(ddp: DistributedDataParallel, optimizer, microbatches, loss_fn):
    ddp.zero_grad_buffer()
    with ddp.no_sync():
        for x, y in microbatches[:-1]:
            loss_fn(ddp(x), y).backward()
    x, y = microbatches[-1]
    loss_fn(ddp(x), y).backward()
    ddp.finish_grad_sync()
    for param in ddp.param_to_bucket:
        param.grad = param.main_grad
    optimizer.step()
    for param in ddp.param_to_bucket:
        param.grad = None
