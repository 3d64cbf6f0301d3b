"""Vehicle routing state: per-route views published to the device as one array (CuPy)."""
from __future__ import annotations

import cupy as cp
import cupyx
import numpy as np

ROUTE_VIEW = np.dtype([("nodes", np.uint64), ("n_nodes", np.int32), ("capacity", np.int32)])

_COST_SRC = r"""
struct route_view { const int* nodes; int n_nodes; int capacity; };
extern "C" __global__
void route_cost(const route_view* views, int n_routes, const float* dist, int n, float* cost) {
    int r = blockIdx.x;
    if (r >= n_routes) return;
    route_view v = views[r];
    float acc = 0.f;
    for (int i = threadIdx.x; i + 1 < v.n_nodes; i += blockDim.x)
        acc += dist[v.nodes[i] * n + v.nodes[i + 1]];
    atomicAdd(&cost[r], acc);
}
"""


class Route:
    def __init__(self, nodes: list[int], capacity: int, stream: cp.cuda.Stream) -> None:
        self.capacity = capacity
        self.n_nodes = len(nodes)
        with stream:
            self.nodes = cp.zeros(capacity, dtype=cp.int32)
            self.nodes[: self.n_nodes] = cp.asarray(nodes, dtype=cp.int32)

    def view(self) -> tuple[int, int, int]:
        return self.nodes.data.ptr, self.n_nodes, self.capacity


class Solution:
    def __init__(self, dist: np.ndarray, max_routes: int) -> None:
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.n = dist.shape[0]
        with self.stream:
            self.dist = cp.asarray(dist.astype(np.float32))
            self.cost = cp.zeros(max_routes, dtype=cp.float32)
            self.routes_view = cp.zeros(max_routes * ROUTE_VIEW.itemsize, dtype=cp.uint8)
        self.h_routes_view = cupyx.zeros_pinned(max_routes * ROUTE_VIEW.itemsize, dtype=np.uint8)
        self.kernel = cp.RawKernel(_COST_SRC, "route_cost")
        self.routes: list[Route] = []
        self.stream.synchronize()

    def set_route_views(self) -> None:
        views = self.h_routes_view.view(ROUTE_VIEW)
        for i, route in enumerate(self.routes):
            views[i] = route.view()
        self.routes_view.set(self.h_routes_view, stream=self.stream)

    def compute_cost(self) -> None:
        self.set_route_views()
        with self.stream:
            self.cost.fill(0)
            self.kernel(
                (max(len(self.routes), 1),), (128,),
                (self.routes_view, np.int32(len(self.routes)), self.dist, np.int32(self.n), self.cost),
            )

    def resize_routes(self, capacity: int) -> None:
        with self.stream:
            for route in self.routes:
                if route.capacity < capacity:
                    grown = cp.zeros(capacity, dtype=cp.int32)
                    grown[: route.n_nodes] = route.nodes[: route.n_nodes]
                    route.nodes, route.capacity = grown, capacity

    def add_route(self, nodes: list[int]) -> None:
        capacity = max([len(nodes) * 2] + [r.capacity for r in self.routes])
        self.routes.append(Route(nodes, capacity, self.stream))
        self.compute_cost()
        self.resize_routes(capacity)
        self.compute_cost()

    def total_cost(self) -> float:
        with self.stream:
            total = self.cost[: len(self.routes)].sum()
            return float(total.get(stream=self.stream))


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    solution = Solution(rng.random((1024, 1024)), max_routes=64)
    for length in rng.integers(8, 200, 48):
        solution.add_route(rng.integers(0, 1024, int(length)).tolist())
    print(solution.total_cost())
