from dataclasses import dataclass, field
from typing import List

import torch
import torch.distributed as dist


@dataclass
class IPGBucket:
    buffer: List[torch.Tensor] = field(default_factory=list)
    params: List[torch.nn.Parameter] = field(default_factory=list)
    elements: int = 0
    index: int = 0

    def clear(self):
        self.params.clear()
        self.elements = 0


class ContiguousGradReducer:
    def __init__(self, params, reduce_bucket_size, dtype=torch.bfloat16, group=None):
        self.params = [p for p in params if p.requires_grad]
        self.reduce_bucket_size = int(reduce_bucket_size)
        self.dp_process_group = group
        self.reduction_stream = torch.cuda.Stream()
        self.averaged = {p: torch.zeros_like(p) for p in self.params}
        self.bucket = IPGBucket()
        for _ in range(2):
            self.bucket.buffer.append(
                torch.empty(self.reduce_bucket_size, dtype=dtype, device=torch.cuda.current_device())
            )
        for p in self.params:
            p.register_post_accumulate_grad_hook(self.reduce_ready_partitions_and_remove_grads)

    def reduce_ready_partitions_and_remove_grads(self, param):
        bucket = self.bucket
        if bucket.elements + param.numel() > self.reduce_bucket_size:
            self.reduce_ipg_grads()
            bucket.index = 1 - bucket.index

        new_grad_tensor = bucket.buffer[bucket.index].narrow(0, bucket.elements, param.numel())
        new_grad_tensor.copy_(param.grad.view(-1))
        param.grad = None
        bucket.elements += param.numel()
        bucket.params.append(param)

    def reduce_ipg_grads(self):
        bucket = self.bucket
        if bucket.elements:
            flat = bucket.buffer[bucket.index].narrow(0, 0, bucket.elements)
            self.average_tensor(flat, list(bucket.params))
        bucket.clear()

    def average_tensor(self, tensor, params):
        current = torch.cuda.current_stream()
        current.wait_stream(self.reduction_stream)
        self.reduction_stream.wait_stream(current)
        with torch.cuda.stream(self.reduction_stream):
            tensor.div_(dist.get_world_size(self.dp_process_group))
            dist.all_reduce(tensor, group=self.dp_process_group)
            offset = 0
            for p in params:
                piece = tensor.narrow(0, offset, p.numel())
                self.averaged[p].copy_(piece.view_as(p))
                offset += p.numel()

    def independent_gradient_partition_epilogue(self):
        self.reduce_ipg_grads()
        self.bucket.index = 0
        torch.cuda.current_stream().wait_stream(self.reduction_stream)
        for p in self.params:
            p.grad = self.averaged[p]
