"""Sharded embedding with planned prefetch."""
from collections import deque

import torch
from torch import nn


class PrefetchPlan:
    __slots__ = ("ids", "rows", "inverse", "event")

    def __init__(self, ids, rows, inverse, event):
        self.ids, self.rows, self.inverse, self.event = ids, rows, inverse, event


class HostEmbedding(nn.Module):
    def __init__(self, num: int, dim: int, ahead: int = 2):
        super().__init__()
        self.table = torch.randn(num, dim).mul_(0.01)
        self.dim, self.ahead = dim, ahead
        self.stream = torch.cuda.Stream()
        self.plans: deque[PrefetchPlan] = deque()

    def plan(self, ids: torch.Tensor):
        uniq, inverse = torch.unique(ids, return_inverse=True)
        rows = self.table[uniq].pin_memory()
        inv = inverse.pin_memory()
        with torch.cuda.stream(self.stream):
            dev_rows = rows.to("cuda", non_blocking=True)
            dev_inv = inv.to("cuda", non_blocking=True)
            event = self.stream.record_event()
        self.plans.append(PrefetchPlan(ids, dev_rows, dev_inv, event))

    def forward(self) -> torch.Tensor:
        plan = self.plans.popleft()
        current = torch.cuda.current_stream()
        current.wait_event(plan.event)
        for t in (plan.rows, plan.inverse):
            t.record_stream(current)
        return plan.rows[plan.inverse]


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = HostEmbedding(100_000, 64)
        self.head = nn.Linear(64, 1).cuda()

    def feed(self, batches):
        it = iter(batches)
        for _ in range(self.emb.ahead):
            self.emb.plan(next(it))
        for ids in it:
            self.emb.plan(ids)
            yield
        while self.emb.plans:
            yield

    @torch.no_grad()
    def scores(self, batches):
        return [self.head(self.emb()).sum() for _ in self.feed(batches)]


if __name__ == "__main__":
    tower = Tower()
    out = tower.scores([torch.randint(100_000, (512,)) for _ in range(20)])
    print(torch.stack(out).sum().item())
