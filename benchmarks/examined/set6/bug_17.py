from typing import List

import torch
import torch.distributed as dist
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors


class DeepSpeedZeroOptimizer:
    def __init__(self, params, numel_per_bucket: int, partition_id: int, group=None):
        self.dp_process_group = group
        self.partition_id = partition_id
        self.numel_per_bucket = numel_per_bucket
        self.reduction_stream = torch.cuda.Stream()
        self.bit16_params: List[torch.nn.Parameter] = list(params)
        world = dist.get_world_size(group)
        self.owner = {p: i % world for i, p in enumerate(self.bit16_params)}
        self.averaged_gradients = {}
        self._bucket: List[torch.nn.Parameter] = []
        self._bucket_numel = 0
        for p in self.bit16_params:
            p.register_post_accumulate_grad_hook(self._on_grad)

    def is_param_in_current_partition(self, param) -> bool:
        return self.owner[param] == self.partition_id

    def _on_grad(self, param):
        self._bucket.append(param)
        self._bucket_numel += param.numel()
        if self._bucket_numel >= self.numel_per_bucket:
            self.buffered_reduce_fallback()

    def allreduce_bucket(self, bucket: List[torch.Tensor]) -> torch.Tensor:
        tensor = _flatten_dense_tensors(bucket)
        tensor.div_(dist.get_world_size(self.dp_process_group))
        dist.all_reduce(tensor, group=self.dp_process_group)
        return tensor

    def allreduce_and_copy(self, small_bucket: List[torch.Tensor]):
        stream = self.reduction_stream
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            allreduced = self.allreduce_bucket(small_bucket)
            for buf, synced in zip(small_bucket, _unflatten_dense_tensors(allreduced, small_bucket)):
                buf.copy_(synced)

    def buffered_reduce_fallback(self):
        params, self._bucket, self._bucket_numel = self._bucket, [], 0
        if not params:
            return
        self.allreduce_and_copy([p.grad for p in params])
        for param in params:
            if self.is_param_in_current_partition(param):
                self.averaged_gradients[param] = param.grad
            param.grad = None

    def reduce_gradients(self):
        self.buffered_reduce_fallback()
        torch.cuda.current_stream().wait_stream(self.reduction_stream)

    def step(self, base_optimizer):
        self.reduce_gradients()
        for param, grad in self.averaged_gradients.items():
            param.grad = grad
        base_optimizer.step()
        base_optimizer.zero_grad(set_to_none=True)
        self.averaged_gradients.clear()
