"""Attention plan upload: reusable host arrays kept in ordinary memory."""
from typing import Sequence

import numpy as np
import torch


class PlanBuffer:
    """Host array that is refilled each step and a device mirror."""

    def __init__(self, n: int, dtype: torch.dtype, device: str):
        self.host = torch.zeros(n, dtype=dtype)
        self.host_np = self.host.numpy()
        self.dev = torch.zeros(n, dtype=dtype, device=device)

    def push(self, n: int) -> torch.Tensor:
        view = self.dev[:n]
        view.copy_(self.host[:n], non_blocking=True)
        return view


class PagedPlanner:
    def __init__(self, max_pages: int, max_reqs: int, page: int, device: str = "cuda"):
        self.page = page
        self.indptr = PlanBuffer(max_reqs + 1, torch.int32, device)
        self.indices = PlanBuffer(max_pages, torch.int64, device)
        self.last_len = PlanBuffer(max_reqs, torch.int32, device)

    def plan(self, lens: Sequence[int], tables: Sequence[np.ndarray]):
        n = len(lens)
        pages = [-(-l // self.page) for l in lens]
        self.indptr.host_np[0] = 0
        np.cumsum(pages, out=self.indptr.host_np[1 : n + 1])
        cursor = 0
        for count, table in zip(pages, tables):
            self.indices.host_np[cursor : cursor + count] = table[:count]
            cursor += count
        self.last_len.host_np[:n] = [(l - 1) % self.page + 1 for l in lens]
        return (
            self.indptr.push(n + 1),
            self.indices.push(cursor),
            self.last_len.push(n),
        )


class MeanPool:
    def __init__(self, kv: torch.Tensor):
        self.kv = kv

    def __call__(self, indptr, indices, last_len):
        gathered = self.kv[indices].mean(dim=(1, 2))
        n = last_len.numel()
        counts = (indptr[1:] - indptr[:-1]).long()
        owner = torch.repeat_interleave(
            torch.arange(n, device=indices.device), counts, output_size=indices.numel()
        )
        acc = torch.zeros(n, device=indices.device)
        acc.index_add_(0, owner, gathered)
        return acc * last_len


def main(steps: int = 100):
    rng = np.random.default_rng(1)
    planner = PagedPlanner(4096, 128, page=16)
    pool = MeanPool(torch.randn(4096, 16, 64, device="cuda"))
    results = []
    for step in range(steps):
        n = int(rng.integers(4, 64))
        lens = rng.integers(1, 512, size=n).tolist()
        tables = [rng.permutation(4096)[:32] for _ in range(n)]
        results.append(pool(*planner.plan(lens, tables)).sum())
    print(torch.stack(results).mean().item())


if __name__ == "__main__":
    main()
