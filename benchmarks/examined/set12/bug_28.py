import cupy as cp
import numpy as np

_EVAL = cp.RawKernel(
    r"""
extern "C" __global__ void eval_moves(const float* cost, const int* route, float* delta, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n - 3) return;
    int a = route[i], b = route[i + 1], c = route[i + 2], d = route[i + 3];
    delta[i] = cost[a * n + c] + cost[b * n + d] - cost[a * n + b] - cost[c * n + d];
}
""",
    "eval_moves",
)

_SELECT = cp.RawKernel(
    r"""
extern "C" __global__ void select_moves(const float* delta, int* route, int* count, int n) {
    if (threadIdx.x != 0) return;
    int best = -1; float value = -1e-6f;
    for (int i = 0; i < n - 3; ++i) if (delta[i] < value) { value = delta[i]; best = i; }
    if (best >= 0) { int t = route[best + 1]; route[best + 1] = route[best + 2];
                     route[best + 2] = t; atomicAdd(count, 1); }
}
""",
    "select_moves",
)


class LocalSearch:
    def __init__(self, cost, route):
        self.n = len(route)
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.cost = cp.asarray(cost, dtype=cp.float32)
            self.route = cp.asarray(route, dtype=cp.int32)
            self.delta = cp.zeros(self.n, dtype=cp.float32)
            self.best_count = cp.zeros(1, dtype=cp.int32)
        self.stream.synchronize()
        self.graph = None

    def _improve(self):
        grid = ((self.n + 127) // 128,)
        _EVAL(grid, (128,), (self.cost, self.route, self.delta, np.int32(self.n)))
        _SELECT((1,), (32,), (self.delta, self.route, self.best_count, np.int32(self.n)))
        accepted = int(self.best_count.get()[0])
        return accepted

    def start_capture(self):
        self.stream.begin_capture()

    def end_capture(self):
        self.graph = self.stream.end_capture()

    def run(self, iterations):
        with self.stream:
            accepted = self._improve()
            if self.graph is None:
                self.start_capture()
                accepted = self._improve()
                self.end_capture()
            for _ in range(iterations):
                self.graph.launch(self.stream)
            total = int(self.best_count.get()[0])
        return total, accepted, cp.asnumpy(self.route)
