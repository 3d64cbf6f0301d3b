"""Gradient averaging in buckets, overlapped with the backward pass."""
from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn


@dataclass
class Bucket:
    params: list[nn.Parameter] = field(default_factory=list)
    numel: int = 0
    missing: int = 0


class BucketReducer:
    def __init__(self, module: nn.Module, group=None, bucket_numel: int = 1 << 22) -> None:
        self.group = group
        self.world = dist.get_world_size(group)
        self.buckets: list[Bucket] = [Bucket()]
        self.owner: dict[nn.Parameter, Bucket] = {}
        self.inflight: list[tuple[Bucket, torch.Tensor, dist.Work]] = []
        for p in reversed([p for p in module.parameters() if p.requires_grad]):
            bucket = self.buckets[-1]
            if bucket.numel and bucket.numel + p.numel() > bucket_numel:
                bucket = Bucket()
                self.buckets.append(bucket)
            bucket.params.append(p)
            bucket.numel += p.numel()
            self.owner[p] = bucket
            p.register_post_accumulate_grad_hook(self._on_grad)
        self.reset()

    def reset(self) -> None:
        for bucket in self.buckets:
            bucket.missing = len(bucket.params)

    def _on_grad(self, p: torch.Tensor) -> None:
        bucket = self.owner[p]
        bucket.missing -= 1
        if bucket.missing == 0:
            self._launch(bucket)

    def _launch(self, bucket: Bucket) -> None:
        flat = torch.cat([
            (p.grad if p.grad is not None else torch.zeros_like(p)).reshape(-1)
            for p in bucket.params
        ])
        flat.div_(self.world)
        work = dist.all_reduce(flat, group=self.group, async_op=True)
        self.inflight.append((bucket, flat, work))

    def finish(self) -> None:
        for bucket in self.buckets:
            if bucket.missing > 0:
                self._launch(bucket)
        for bucket, flat, work in self.inflight:
            work.wait()
            offset = 0
            for p in bucket.params:
                chunk = flat[offset:offset + p.numel()].view_as(p)
                if p.grad is None:
                    p.grad = chunk.clone()
                else:
                    p.grad.copy_(chunk)
                offset += p.numel()
        self.inflight.clear()
        self.reset()


def train(module: nn.Module, data, lr: float = 1e-3) -> float:
    reducer = BucketReducer(module)
    opt = torch.optim.SGD(module.parameters(), lr=lr, momentum=0.9)
    total = torch.zeros((), device="cuda")
    steps = 0
    for x, y in data:
        opt.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(module(x.cuda()), y.cuda())
        loss.backward()
        reducer.finish()
        opt.step()
        total += loss.detach()
        steps += 1
    return total.item() / max(steps, 1)
