"""Point-cloud features: CuPy kernels and torch layers take turns on one stream."""
import contextlib

import cupy as cp
import torch
from torch import nn

VOXEL = cp.RawKernel(r"""
extern "C" __global__ void voxel_sum(const float* pts, const float* feats, float* grid, int* count,
                                     int n, int width, int side, float cell) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v[3];
    for (int k = 0; k < 3; ++k) {
        v[k] = (int)floorf(pts[3 * i + k] / cell);
        if (v[k] < 0 || v[k] >= side) return;
    }
    int cell_id = (v[2] * side + v[1]) * side + v[0];
    atomicAdd(count + cell_id, 1);
    for (int c = 0; c < width; ++c)
        atomicAdd(grid + (long long)cell_id * width + c, feats[(long long)i * width + c]);
}""", "voxel_sum")


class SharedStream:
    """Makes one torch stream current for torch and for CuPy."""

    def __init__(self, device):
        self.device = torch.device(device)
        self.torch = torch.cuda.Stream(self.device)
        self.cupy = cp.cuda.ExternalStream(self.torch.cuda_stream)

    @contextlib.contextmanager
    def use(self):
        caller = torch.cuda.current_stream(self.device)
        self.torch.wait_stream(caller)
        with torch.cuda.stream(self.torch), self.cupy:
            yield caller
        caller.wait_stream(self.torch)


def voxelise(points, feats, side, cell):
    n, width = feats.shape
    pts, values = cp.from_dlpack(points.contiguous()), cp.from_dlpack(feats.contiguous())
    grid = cp.zeros((side ** 3, width), dtype=cp.float32)
    count = cp.zeros(side ** 3, dtype=cp.int32)
    args = (pts, values, grid, count, cp.int32(n), cp.int32(width), cp.int32(side), cp.float32(cell))
    VOXEL(((n + 255) // 256,), (256,), args)
    return torch.from_dlpack(grid), torch.from_dlpack(count)


class VoxelNet(nn.Module):
    def __init__(self, width, side, cell, device):
        super().__init__()
        self.side, self.cell = side, cell
        self.point = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.conv = nn.Sequential(
            nn.Conv3d(width, width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten())
        self.to(device)
        self.shared = SharedStream(device)

    @torch.no_grad()
    def forward(self, points):
        with self.shared.use() as caller:
            feats = self.point(points)
            grid, count = voxelise(points, feats, self.side, self.cell)
            mean = grid / count.clamp_min(1).unsqueeze(-1)
            volume = mean.t().reshape(1, -1, self.side, self.side, self.side)
            out = self.conv(volume)
            points.record_stream(self.shared.torch)
            out.record_stream(caller)
        return out


def main(clouds=32, n=200_000, width=32, side=48, device="cuda:0"):
    torch.cuda.set_device(device)
    net = VoxelNet(width, side, 1.0 / side, device).eval()
    outs = [net(torch.rand(n, 3, device=device)) for _ in range(clouds)]
    return torch.cat(outs).cpu()


if __name__ == "__main__":
    print(main().shape)
