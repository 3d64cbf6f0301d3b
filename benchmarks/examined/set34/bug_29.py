"""Lidar nodes that pass device clouds through an in-process board."""
from typing import Callable, List

import cupy as cp
import numpy as np
from cupy.cuda import runtime

_CROP = cp.RawKernel(
    r"""
extern "C" __global__
void crop(const float4* raw, float4* out, int n, float limit) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = raw[i];
    bool keep = fabsf(p.x) < limit && fabsf(p.y) < limit;
    out[i] = keep ? p : make_float4(0.f, 0.f, 0.f, -1.f);
}
""",
    "crop",
)

_VOXELS = cp.RawKernel(
    r"""
extern "C" __global__
void count_voxels(const float4* cloud, unsigned int* grid, int n, int width, float cell) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 p = cloud[i];
    if (p.w < 0.f) return;
    int u = (int)(p.x / cell) + width / 2, v = (int)(p.y / cell) + width / 2;
    if (u >= 0 && u < width && v >= 0 && v < width) atomicAdd(&grid[v * width + u], 1u);
}
""",
    "count_voxels",
)


class DeviceCloud:
    """Stream-ordered allocation owned by the node that fills it."""

    def __init__(self, count: int, stream: cp.cuda.Stream):
        self.count = count
        self.stream = stream
        self.ptr = runtime.mallocAsync(count * 16, stream.ptr)
        self.ready = cp.cuda.Event(disable_timing=True)

    def release(self) -> None:
        runtime.freeAsync(self.ptr, self.stream.ptr)
        self.ptr = 0


class Board:
    def __init__(self):
        self.subscribers: List[Callable[[DeviceCloud], None]] = []

    def subscribe(self, callback: Callable[[DeviceCloud], None]) -> None:
        self.subscribers.append(callback)

    def publish(self, cloud: DeviceCloud) -> None:
        cloud.ready.record(cloud.stream)
        for callback in self.subscribers:
            callback(cloud)
        cloud.release()


class CropNode:
    def __init__(self, board: Board, capacity: int, limit: float):
        self.board = board
        self.limit = np.float32(limit)
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.raw = cp.zeros((capacity, 4), dtype=cp.float32)

    def on_scan(self, points: np.ndarray) -> None:
        n = len(points)
        self.raw[:n].set(points, stream=self.stream)
        cloud = DeviceCloud(n, self.stream)
        with self.stream:
            _CROP(((n + 255) // 256,), (256,), (self.raw, cloud.ptr, np.int32(n), self.limit))
        self.board.publish(cloud)


class VoxelNode:
    def __init__(self, board: Board, width: int, cell: float):
        self.width, self.cell = np.int32(width), np.float32(cell)
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.grid = cp.zeros((width, width), dtype=cp.uint32)
        board.subscribe(self.on_cloud)

    def on_cloud(self, cloud: DeviceCloud) -> None:
        n = cloud.count
        self.stream.wait_event(cloud.ready)
        with self.stream:
            _VOXELS(
                ((n + 255) // 256,),
                (256,),
                (cloud.ptr, self.grid, np.int32(n), self.width, self.cell),
            )

    def occupied(self) -> int:
        with self.stream:
            return int(cp.count_nonzero(self.grid))


def main(scans: int = 300, points: int = 1 << 20) -> None:
    board = Board()
    voxels = [VoxelNode(board, 512, 0.2), VoxelNode(board, 128, 0.8)]
    crop = CropNode(board, points, limit=60.0)
    rng = np.random.default_rng(0)
    scan = rng.normal(scale=30.0, size=(points, 4)).astype(np.float32)
    for _ in range(scans):
        crop.on_scan(scan)
    print([v.occupied() for v in voxels])


if __name__ == "__main__":
    main()
