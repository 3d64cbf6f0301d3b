from __future__ import annotations

import os
from collections import deque

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import Variable


class Bucket:
    def __init__(self, params: list[nn.Parameter]) -> None:
        self.params = params
        self.flat = torch.zeros(sum(p.numel() for p in params), device="cuda")
        self.missing = len(params)
        offset = 0
        for p in params:
            p.grad = self.flat[offset : offset + p.numel()].view_as(p)
            offset += p.numel()


class BucketedDDP(nn.Module):
    """Averages gradient buckets as they fill during the backward pass."""

    def __init__(self, module: nn.Module, bucket_numel: int = 1 << 18) -> None:
        super().__init__()
        self.module = module
        self.world = dist.get_world_size()
        self.buckets = [Bucket(group) for group in self._split(bucket_numel)]
        self._works: deque = deque()
        self._queued = False
        for bucket in self.buckets:
            for p in bucket.params:
                p.register_post_accumulate_grad_hook(self._make_hook(bucket))

    def _split(self, limit: int) -> list[list[nn.Parameter]]:
        groups: list[list[nn.Parameter]] = [[]]
        filled = 0
        for p in reversed(list(self.module.parameters())):
            if groups[-1] and filled + p.numel() > limit:
                groups.append([])
                filled = 0
            groups[-1].append(p)
            filled += p.numel()
        return groups

    def _make_hook(self, bucket: Bucket):
        def hook(param: nn.Parameter) -> None:
            if not self._queued:
                Variable._execution_engine.queue_callback(self._finish)
                self._queued = True
            bucket.missing -= 1
            if bucket.missing == 0:
                bucket.flat.div_(self.world)
                self._works.append(dist.all_reduce(bucket.flat, async_op=True))

        return hook

    def _finish(self) -> None:
        while self._works:
            self._works.popleft().wait()
        for bucket in self.buckets:
            bucket.missing = len(bucket.params)
        self._queued = False

    def zero_grad(self, set_to_none: bool = False) -> None:
        for bucket in self.buckets:
            bucket.flat.zero_()

    def forward(self, *args):
        return self.module(*args)


def main() -> None:
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.manual_seed(1)
    net = BucketedDDP(nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda())
    opt = torch.optim.SGD(net.parameters(), lr=1e-2)
    for step in range(30):
        x = torch.randn(64, 512, device="cuda")
        loss = (net(x) - x).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        net.zero_grad()
    print(loss.item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
