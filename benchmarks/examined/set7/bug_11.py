import itertools
from typing import List, Sequence

import torch
from numba import cuda

THREADS = 128


@cuda.jit
def find_merge_pairs_kernel(pivots, low, merge_to, n):
    j = cuda.grid(1)
    if j < n:
        merge_to[j] = -1
        if pivots[j] >= 0:
            k = low[pivots[j]]
            if k >= 0 and k < j:
                merge_to[j] = k


@cuda.jit
def merge_columns_kernel(columns, merge_to, pivots, n, width):
    j = cuda.grid(1)
    if j < n:
        k = merge_to[j]
        if k >= 0:
            last = -1
            for i in range(width):
                v = columns[j, i] ^ columns[k, i]
                columns[j, i] = v
                if v:
                    last = i
            pivots[j] = last


def _blocks(n: int) -> int:
    return (n + THREADS - 1) // THREADS


def boundary_columns(dist: torch.Tensor, max_edges: int) -> torch.Tensor:
    n = dist.shape[0]
    iu = torch.triu_indices(n, n, offset=1, device=dist.device)
    order = torch.argsort(dist[iu[0], iu[1]])[:max_edges]
    columns = torch.zeros((order.numel(), n), dtype=torch.int32, device=dist.device)
    columns.scatter_(1, iu[0][order][:, None], 1)
    columns.scatter_(1, iu[1][order][:, None], 1)
    return columns


def reduce_columns(columns: torch.Tensor, rounds: int) -> torch.Tensor:
    n, width = columns.shape
    idx = torch.arange(width, dtype=torch.int32, device=columns.device)
    pivots = torch.where(columns > 0, idx, -1).amax(dim=1).to(torch.int32)
    merge_to = torch.empty(n, dtype=torch.int32, device=columns.device)
    for _ in range(rounds):
        low = torch.full((width,), -1, dtype=torch.int32, device=columns.device)
        low.scatter_(0, pivots.clamp_min(0).long(),
                     torch.arange(n, dtype=torch.int32, device=columns.device))
        find_merge_pairs_kernel[_blocks(n), THREADS](
            cuda.as_cuda_array(pivots), cuda.as_cuda_array(low), cuda.as_cuda_array(merge_to), n
        )
        merge_columns_kernel[_blocks(n), THREADS](
            cuda.as_cuda_array(columns), cuda.as_cuda_array(merge_to), cuda.as_cuda_array(pivots),
            n, width
        )
    return pivots.clone()


class VrPersistence(torch.nn.Module):
    def __init__(self, max_edges: int = 4096, rounds: int = 8, n_streams: int = 4):
        super().__init__()
        self.max_edges = max_edges
        self.rounds = rounds
        self.streams = [torch.cuda.Stream() for _ in range(n_streams)]

    def forward(self, point_clouds: Sequence[torch.Tensor]) -> List[torch.Tensor]:
        main = torch.cuda.current_stream()
        out = []
        for pc, s in zip(point_clouds, itertools.cycle(self.streams)):
            s.wait_stream(main)
            with torch.cuda.stream(s):
                columns = boundary_columns(torch.cdist(pc, pc), self.max_edges)
                pivots = reduce_columns(columns, self.rounds)
            pc.record_stream(s)
            pivots.record_stream(main)
            out.append(pivots)
        for s in self.streams:
            main.wait_stream(s)
        return out
