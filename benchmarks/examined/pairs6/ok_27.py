"""Asynchronous all-reduce handles, one per bucket, collected before the update."""
import os
from dataclasses import dataclass
from typing import Optional

import torch
import torch.distributed as dist
import torch.nn as nn


@dataclass
class PendingBucket:
    params: list
    flat: Optional[torch.Tensor] = None
    work: Optional[dist.Work] = None
    left: int = 0


class AsyncGradReducer:
    def __init__(self, module, layers_per_bucket=2):
        self.group = dist.group.WORLD
        params = [p for p in reversed(list(module.parameters()))]
        step = 2 * layers_per_bucket
        self.buckets = [PendingBucket(params[i:i + step]) for i in range(0, len(params), step)]
        for bucket in self.buckets:
            bucket.left = len(bucket.params)
            for p in bucket.params:
                p.register_post_accumulate_grad_hook(lambda _, b=bucket: self._mark(b))

    def _mark(self, bucket):
        bucket.left -= 1
        if bucket.left == 0:
            bucket.flat = torch._utils._flatten_dense_tensors([p.grad for p in bucket.params])
            bucket.work = dist.all_reduce(bucket.flat, op=dist.ReduceOp.AVG, group=self.group, async_op=True)

    def collect(self):
        for bucket in self.buckets:
            bucket.work.wait()
            grads = [p.grad for p in bucket.params]
            for grad, piece in zip(grads, torch._utils._unflatten_dense_tensors(bucket.flat, grads)):
                grad.copy_(piece)
            bucket.flat = bucket.work = None
            bucket.left = len(bucket.params)


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(16)]).cuda()
    reducer = AsyncGradReducer(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    generator = torch.Generator("cuda").manual_seed(rank)
    for _ in range(100):
        x = torch.randn(128, 2048, device="cuda", generator=generator)
        model(x).square().mean().backward()
        reducer.collect()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
