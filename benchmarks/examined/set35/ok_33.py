"""Grouped sums with RMM scratch that lives and dies on the worker's stream."""
from typing import List, Tuple

import cupy as cp
import numpy as np
import rmm
from rmm.pylibrmm.stream import Stream

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

_merge = cp.RawKernel(
    r"""
extern "C" __global__
void merge(const float* sums, const float* counts, float* total, float* weight, int groups) {
    int g = blockIdx.x * blockDim.x + threadIdx.x;
    if (g < groups) { total[g] += sums[g]; weight[g] += counts[g]; }
}
""",
    "merge",
)


class GroupSums:
    def __init__(self, groups: int):
        self.groups = groups
        self.worker = cp.cuda.Stream(non_blocking=True)
        self.rmm_stream = Stream(self.worker)
        self.total = cp.zeros(groups, dtype=cp.float32)
        self.weight = cp.zeros(groups, dtype=cp.float32)
        self.inputs: List[Tuple[cp.ndarray, cp.ndarray]] = []
        cp.cuda.Device().synchronize()

    def _scratch(self) -> cp.ndarray:
        buffer = rmm.DeviceBuffer(size=4 * self.groups, stream=self.rmm_stream)
        memory = cp.cuda.UnownedMemory(buffer.ptr, buffer.size, buffer)
        return cp.ndarray(self.groups, dtype=cp.float32, memptr=cp.cuda.MemoryPointer(memory, 0))

    def consume(self, keys: cp.ndarray, values: cp.ndarray) -> None:
        self.worker.wait_event(cp.cuda.get_current_stream().record())
        self.inputs.append((keys, values))
        with self.worker:
            sums, counts = self._scratch(), self._scratch()
            sums.fill(0)
            counts.fill(0)
            _scatter((1024,), (256,), (keys, values, sums, counts, np.int32(keys.size)))
            blocks = (self.groups + 255) // 256
            _merge((blocks,), (256,), (sums, counts, self.total, self.weight, np.int32(self.groups)))

    def means(self) -> np.ndarray:
        with self.worker:
            out = cp.asnumpy(self.total / cp.maximum(self.weight, 1))
        self.inputs.clear()
        return out


def main() -> None:
    rmm.reinitialize(pool_allocator=True, initial_pool_size=1 << 30)
    groups, rows = 1 << 18, 1 << 22
    sums = GroupSums(groups)
    rng = cp.random.RandomState(0)
    for _ in range(16):
        keys = rng.randint(0, groups, size=rows, dtype=np.int32)
        values = rng.standard_normal(rows, dtype=np.float32)
        sums.consume(keys, values)
    print(sums.means()[:8])


if __name__ == "__main__":
    main()
