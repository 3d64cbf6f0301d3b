"""Group-by partial sums with RMM scratch memory and a worker stream."""
from typing import List, Tuple

import cupy as cp
import numpy as np
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator

_scatter = cp.RawKernel(
    r"""
extern "C" __global__
void scatter_sum(const int* keys, const float* values, float* sums, float* counts, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        atomicAdd(&sums[keys[i]], values[i]);
        atomicAdd(&counts[keys[i]], 1.0f);
    }
}
""",
    "scatter_sum",
)

_finish = cp.RawKernel(
    r"""
extern "C" __global__
void finish(const float* sums, const float* counts, float* total, float* weight, int groups) {
    int g = blockIdx.x * blockDim.x + threadIdx.x;
    if (g < groups) {
        total[g] += sums[g];
        weight[g] += counts[g];
    }
}
""",
    "finish",
)


def setup_memory(initial: int = 1 << 31) -> None:
    rmm.reinitialize(pool_allocator=True, initial_pool_size=initial)
    cp.cuda.set_allocator(rmm_cupy_allocator)


class PartialAggregator:
    def __init__(self, groups: int):
        self.groups = groups
        self.worker = cp.cuda.Stream(non_blocking=True)
        self.total = cp.zeros(groups, dtype=cp.float32)
        self.weight = cp.zeros(groups, dtype=cp.float32)
        cp.cuda.Device().synchronize()

    def _scratch(self) -> Tuple[cp.ndarray, cp.ndarray]:
        nbytes = 4 * self.groups
        sums = cp.asarray(rmm.DeviceBuffer(size=nbytes)).view(cp.float32)
        counts = cp.asarray(rmm.DeviceBuffer(size=nbytes)).view(cp.float32)
        return sums, counts

    def consume(self, keys: cp.ndarray, values: cp.ndarray) -> None:
        n = int(keys.size)
        sums, counts = self._scratch()
        self.worker.wait_event(cp.cuda.get_current_stream().record())
        with self.worker:
            sums.fill(0)
            counts.fill(0)
            _scatter((1024,), (256,), (keys, values, sums, counts, np.int32(n)))
            blocks = (self.groups + 255) // 256
            _finish((blocks,), (256,), (sums, counts, self.total, self.weight, np.int32(self.groups)))

    def means(self) -> np.ndarray:
        with self.worker:
            out = cp.asnumpy(self.total / cp.maximum(self.weight, 1))
        return out


def load(part: int, rows: int, groups: int) -> Tuple[cp.ndarray, cp.ndarray]:
    rng = cp.random.RandomState(part)
    keys = rng.randint(0, groups, size=rows, dtype=np.int32)
    values = rng.standard_normal(rows, dtype=np.float32)
    return keys, values


def standardize(values: cp.ndarray) -> cp.ndarray:
    centered = values - values.mean()
    return centered / centered.std()


def main() -> None:
    setup_memory()
    groups, rows = 1 << 20, 1 << 24
    agg = PartialAggregator(groups)
    held: List[Tuple[cp.ndarray, cp.ndarray]] = []
    for part in range(16):
        keys, values = load(part, rows, groups)
        values = standardize(values)
        held.append((keys, values))
        agg.consume(keys, values)
    print(agg.means()[:8])


if __name__ == "__main__":
    main()
