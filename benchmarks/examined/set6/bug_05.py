from dataclasses import dataclass, field
from typing import Dict, List

import torch
import torch.distributed as dist
from torch import nn


class TwoBranchBlock(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.dense = nn.Linear(dim, dim)
        self.adapter = nn.Linear(dim, dim)
        self.adapter_stream = torch.cuda.Stream()

    def forward(self, x):
        main = torch.cuda.current_stream()
        self.adapter_stream.wait_stream(main)
        with torch.cuda.stream(self.adapter_stream):
            side = self.adapter(x)
        x.record_stream(self.adapter_stream)
        out = self.dense(x)
        main.wait_stream(self.adapter_stream)
        side.record_stream(main)
        return out + side


@dataclass
class IPGBucket:
    buffer: torch.Tensor
    params: List[nn.Parameter] = field(default_factory=list)
    offsets: Dict[int, int] = field(default_factory=dict)
    elements: int = 0
    ready: int = 0


class DeepSpeedZeroOptimizer:
    def __init__(self, init_optimizer, params, bucket_size: int, group=None):
        self.optimizer = init_optimizer
        self.dp_process_group = group
        self.reduction_stream = torch.cuda.Stream()
        self.buckets: List[IPGBucket] = []
        self.bucket_of: Dict[int, IPGBucket] = {}
        device = torch.cuda.current_device()
        for param in reversed(list(params)):
            if not self.buckets or self.buckets[-1].elements + param.numel() > bucket_size:
                self.buckets.append(IPGBucket(torch.zeros(bucket_size, device=device)))
            bucket = self.buckets[-1]
            bucket.offsets[id(param)] = bucket.elements
            bucket.elements += param.numel()
            bucket.params.append(param)
            self.bucket_of[id(param)] = bucket
            param.register_post_accumulate_grad_hook(self.reduce_independent_p_g_buckets)

    def grad_slice(self, param):
        bucket = self.bucket_of[id(param)]
        return bucket.buffer.narrow(0, bucket.offsets[id(param)], param.numel()).view_as(param)

    def reduce_independent_p_g_buckets(self, param):
        bucket = self.bucket_of[id(param)]
        self.grad_slice(param).copy_(param.grad)
        param.grad = None
        bucket.ready += 1
        if bucket.ready == len(bucket.params):
            bucket.ready = 0
            self.average_tensor(bucket.buffer[: bucket.elements])

    def average_tensor(self, tensor: torch.Tensor):
        stream = self.reduction_stream
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            tensor.div_(dist.get_world_size(self.dp_process_group))
            dist.all_reduce(tensor, group=self.dp_process_group)

    def step(self):
        torch.cuda.current_stream().wait_stream(self.reduction_stream)
        for bucket in self.buckets:
            for param in bucket.params:
                param.grad = self.grad_slice(param)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
