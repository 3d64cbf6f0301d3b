"""Temporal random walks on a CUDA edge list (CuPy)."""
from __future__ import annotations

import cupy as cp
import numpy as np

_WALK_SRC = r"""
extern "C" __global__
void walk(const int* offsets, const int* targets, const float* times, const int* starts,
          int* nodes, float* stamps, int* lengths, int num_walks, int max_len,
          unsigned long long seed) {
    int w = blockIdx.x * blockDim.x + threadIdx.x;
    if (w >= num_walks) return;
    unsigned long long s = seed + 0x9E3779B97F4A7C15ULL * (w + 1);
    int node = starts[w];
    float now = -1e30f;
    int len = 0;
    nodes[w * max_len + len++] = node;
    while (len < max_len) {
        int lo = offsets[node], hi = offsets[node + 1];
        while (lo < hi && times[lo] <= now) ++lo;
        if (lo >= hi) break;
        s ^= s << 13; s ^= s >> 7; s ^= s << 17;
        int pick = lo + (int)(s % (unsigned long long)(hi - lo));
        now = times[pick];
        node = targets[pick];
        stamps[w * max_len + len] = now;
        nodes[w * max_len + len++] = node;
    }
    lengths[w] = len;
}
"""


class EdgeData:
    def __init__(self, sources: np.ndarray, targets: np.ndarray, times: np.ndarray, n: int) -> None:
        order = np.lexsort((times, sources))
        counts = np.bincount(sources, minlength=n)
        self.num_nodes = n
        self.offsets = cp.asarray(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
        self.targets = cp.asarray(targets[order].astype(np.int32))
        self.times = cp.asarray(times[order].astype(np.float32))
        cp.cuda.runtime.deviceSynchronize()


class WalkSet:
    def __init__(self, num_walks: int, max_len: int, padding: int) -> None:
        self.nodes = cp.empty((num_walks, max_len), dtype=cp.int32)
        self.stamps = cp.empty((num_walks, max_len), dtype=cp.float32)
        self.lengths = cp.empty(num_walks, dtype=cp.int32)
        self.nodes.fill(padding)
        self.stamps.fill(-1.0)
        self.lengths.fill(0)


class TemporalRandomWalk:
    def __init__(self, edges: EdgeData, max_len: int, seed: int = 7) -> None:
        self.edges = edges
        self.max_len = max_len
        self.seed = seed
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.kernel = cp.RawKernel(_WALK_SRC, "walk")

    def _start_nodes(self, walks_per_node: int) -> cp.ndarray:
        starts = cp.repeat(cp.arange(self.edges.num_nodes, dtype=cp.int32), walks_per_node)
        order = cp.argsort(cp.random.random(starts.size))
        return starts[order]

    def walks_for_all_nodes(self, walks_per_node: int, padding: int = -1):
        starts = self._start_nodes(walks_per_node)
        walks = WalkSet(starts.size, self.max_len, padding)
        block = 256
        grid = (starts.size + block - 1) // block
        with self.stream:
            self.kernel(
                (grid,), (block,),
                (self.edges.offsets, self.edges.targets, self.edges.times, starts,
                 walks.nodes, walks.stamps, walks.lengths,
                 np.int32(starts.size), np.int32(self.max_len), np.uint64(self.seed)),
            )
        self.stream.synchronize()
        return walks.nodes.get(), walks.stamps.get(), walks.lengths.get()


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    num_nodes, num_edges = 100_000, 2_000_000
    graph = EdgeData(
        rng.integers(0, num_nodes, num_edges), rng.integers(0, num_nodes, num_edges),
        rng.random(num_edges), num_nodes,
    )
    nodes, _, lengths = TemporalRandomWalk(graph, 80).walks_for_all_nodes(10)
    print(nodes.shape, lengths.mean())
