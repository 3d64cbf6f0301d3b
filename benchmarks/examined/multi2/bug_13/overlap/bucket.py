"""Flat views over groups of parameters."""
from __future__ import annotations

from typing import Iterable, List

import torch
from torch import nn


class Bucket:
    def __init__(self, params: List[nn.Parameter]):
        self.params = params
        total = sum(p.numel() for p in params)
        first = params[0]
        self.flat = torch.empty(total, dtype=first.dtype, device=first.device)
        self.views = []
        offset = 0
        for p in params:
            self.views.append(self.flat[offset:offset + p.numel()].view_as(p))
            offset += p.numel()
        self.missing = len(params)

    def arrived(self) -> bool:
        """Count one more gradient; True when the bucket is complete."""
        self.missing -= 1
        if self.missing:
            return False
        self.missing = len(self.params)
        return True

    def gather(self) -> torch.Tensor:
        torch._foreach_copy_(self.views, [p.grad for p in self.params])
        return self.flat

    def scatter(self) -> None:
        torch._foreach_copy_([p.grad for p in self.params], self.views)


def partition(params: Iterable[nn.Parameter], cap_mb: float) -> List[Bucket]:
    cap = int(cap_mb * 1024 * 1024)
    buckets, group, size = [], [], 0
    for p in reversed([q for q in params if q.requires_grad]):
        nbytes = p.numel() * p.element_size()
        if group and size + nbytes > cap:
            buckets.append(Bucket(group))
            group, size = [], 0
        group.append(p)
        size += nbytes
    if group:
        buckets.append(Bucket(group))
    return buckets
