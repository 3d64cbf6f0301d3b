"""Stashing embedding optimizer state in host memory during the dense part of a step."""
from typing import Dict, Iterable, List

import torch
import torch.nn as nn


class MemoryStash:
    """Moves tensors out of HBM and puts them back under the same tensor object."""

    def __init__(self):
        self.d2h = torch.cuda.Stream()
        self.h2d = torch.cuda.Stream()
        self._host: Dict[int, torch.Tensor] = {}
        self._sizes: Dict[int, int] = {}

    def _page(self, t: torch.Tensor) -> torch.Tensor:
        key = id(t)
        if key not in self._host:
            self._host[key] = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        return self._host[key]

    def stash(self, tensors: Iterable[torch.Tensor]):
        self.d2h.wait_stream(torch.cuda.current_stream())
        for t in tensors:
            with torch.cuda.stream(self.d2h):
                self._page(t).copy_(t, non_blocking=True)
            t.record_stream(self.d2h)
            storage = t.untyped_storage()
            self._sizes[id(t)] = storage.nbytes()
            storage.resize_(0)

    def restore(self, tensors: Iterable[torch.Tensor]):
        tensors = list(tensors)
        for t in tensors:
            t.untyped_storage().resize_(self._sizes.pop(id(t)))
        self.h2d.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.h2d):
            for t in tensors:
                t.copy_(self._page(t), non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.h2d)


class RowwiseAdagrad:
    def __init__(self, tables: List[torch.Tensor], lr: float = 0.05):
        self.tables = tables
        self.lr = lr
        self.moments = [torch.zeros_like(t) for t in tables]

    @torch.no_grad()
    def step(self, grads: List[torch.Tensor]):
        for table, moment, grad in zip(self.tables, self.moments, grads):
            moment.addcmul_(grad, grad)
            table.addcdiv_(grad, moment.sqrt() + 1e-8, value=-self.lr)


class SparseDense(nn.Module):
    def __init__(self, rows: int, dim: int, tables: int):
        super().__init__()
        self.tables = nn.ParameterList(
            nn.Parameter(torch.randn(rows, dim) * 0.01) for _ in range(tables)
        )
        self.over = nn.Sequential(nn.Linear(dim * tables, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        pooled = [t[i].mean(dim=1) for t, i in zip(self.tables, ids)]
        return self.over(torch.cat(pooled, dim=-1)).squeeze(-1)


def main(steps: int = 20, rows: int = 1 << 18, dim: int = 64, tables: int = 4):
    model = SparseDense(rows, dim, tables).cuda()
    params = list(model.tables)
    sparse_opt = RowwiseAdagrad([p.data for p in params])
    dense_opt = torch.optim.Adam(model.over.parameters())
    stash = MemoryStash()
    losses = []
    for _ in range(steps):
        ids = torch.randint(0, rows, (tables, 512, 8), device="cuda")
        stash.stash(sparse_opt.moments)
        loss = nn.functional.binary_cross_entropy_with_logits(
            model(ids), torch.ones(512, device="cuda")
        )
        model.zero_grad()
        loss.backward()
        dense_opt.step()
        stash.restore(sparse_opt.moments)
        sparse_opt.step([p.grad for p in params])
        losses.append(loss.detach())
    print(torch.stack(losses).tolist())


if __name__ == "__main__":
    main()
