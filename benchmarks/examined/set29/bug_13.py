"""Sparse voxel grid construction: torch tensors handed to CuPy kernels for the builder."""
from __future__ import annotations

import cupy as cp
import numpy as np
import torch

_SRC = r"""
extern "C" {
__global__ void encode(const int* ijk, unsigned long long* keys, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long x = ijk[3 * i] >> 3, y = ijk[3 * i + 1] >> 3, z = ijk[3 * i + 2] >> 3;
    keys[i] = (x << 42) | (y << 21) | z;
}
__global__ void count_tiles(const unsigned long long* keys, int* counts, int buckets, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned long long h = keys[i] * 0x9E3779B97F4A7C15ULL;
    atomicAdd(&counts[(int)(h >> 40) % buckets], 1);
}
}
"""


class TorchResource:
    """Scratch memory for the builder, taken from torch's caching allocator."""

    def __init__(self, device: torch.device) -> None:
        self.device = device

    def allocate(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device=self.device)


class PointsToGrid:
    """The builder queues its kernels on CuPy's null stream."""

    def __init__(self, resource: TorchResource, buckets: int) -> None:
        self.resource = resource
        self.buckets = buckets
        self.stream = cp.cuda.Stream.null
        module = cp.RawModule(code=_SRC)
        self.encode = module.get_function("encode")
        self.count_tiles = module.get_function("count_tiles")

    def __call__(self, ijk: torch.Tensor, counts: torch.Tensor) -> None:
        n = ijk.shape[0]
        keys = self.resource.allocate((n,), torch.int64)
        grid, block = ((n + 255) // 256,), (256,)
        with self.stream:
            self.encode(grid, block, (cp.asarray(ijk), cp.asarray(keys).view(cp.uint64), np.int32(n)))
            self.count_tiles(
                grid, block,
                (cp.asarray(keys).view(cp.uint64), cp.asarray(counts), np.int32(self.buckets), np.int32(n)),
            )


class GridBatchBuilder:
    def __init__(self, device: torch.device, buckets: int = 4096) -> None:
        self.device = device
        self.buckets = buckets
        self.work_stream = torch.cuda.Stream(device)
        self.null_stream = torch.cuda.default_stream(device)
        self.build = PointsToGrid(TorchResource(device), buckets)

    def tile_counts(self, clouds: list[torch.Tensor], voxel: float) -> torch.Tensor:
        results = []
        with torch.cuda.stream(self.work_stream):
            self.work_stream.wait_stream(self.null_stream)
            for points in clouds:
                ijk = torch.floor((points - points.amin(dim=0)) / voxel).to(torch.int32)
                counts = torch.zeros(self.buckets, dtype=torch.int32, device=self.device)
                ready = self.work_stream.record_event()
                self.null_stream.wait_event(ready)
                self.build(ijk, counts)
                results.append(counts)
            self.work_stream.wait_stream(self.null_stream)
            stacked = torch.stack(results)
        self.null_stream.wait_stream(self.work_stream)
        stacked.record_stream(self.null_stream)
        return stacked


if __name__ == "__main__":
    dev = torch.device("cuda", 0)
    torch.cuda.set_device(dev)
    builder = GridBatchBuilder(dev)
    batch = [torch.rand(1_000_000, 3, device=dev) * 50 for _ in range(16)]
    out = builder.tile_counts(batch, voxel=0.05)
    print(out.sum(dim=1).tolist())
