import cupy as cp
import torch

_SPLAT_SRC = r"""
extern "C" __global__
void splat_trilinear(const float* pts, const float* feat, float* grid,
                     const long long n, const long long res, const long long c) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = (int)pts[3*i], y = (int)pts[3*i+1], z = (int)pts[3*i+2];
    for (long long k = 0; k < c; ++k)
        atomicAdd(&grid[((x*res + y)*res + z)*c + k], feat[i*c + k]);
}
"""


class SplatIntoGrid:

    def __init__(self, resolution):
        self.resolution = resolution
        self._kernel = None

    @property
    def kernel(self):
        if self._kernel is None:
            self._kernel = cp.RawKernel(_SPLAT_SRC, "splat_trilinear")
        return self._kernel

    def __call__(self, points, features):
        n, c = features.shape
        res = self.resolution
        pts = points.clamp(0, res - 1).contiguous()
        grid = torch.zeros((res, res, res, c), device=features.device)
        block = 256
        self.kernel(
            ((n + block - 1) // block,), (block,),
            (pts.data_ptr(), features.data_ptr(), grid.data_ptr(), n, res, c),
        )
        return grid


class VoxelEncoder(torch.nn.Module):

    def __init__(self, in_dim, dim, resolution):
        super().__init__()
        self.proj = torch.nn.Linear(in_dim, dim)
        self.conv = torch.nn.Conv3d(dim, dim, 3, padding=1)
        self.splat = SplatIntoGrid(resolution)

    def forward(self, points, attrs):
        feats = self.proj(attrs).contiguous()
        grid = self.splat(points, feats)
        return self.conv(grid.permute(3, 0, 1, 2).unsqueeze(0))


class StreamedEncoder:

    def __init__(self, encoder):
        self.encoder = encoder
        self.stream = torch.cuda.Stream()

    @torch.no_grad()
    def encode(self, points, attrs):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            out = self.encoder(points, attrs)
        torch.cuda.current_stream().wait_stream(self.stream)
        out.record_stream(torch.cuda.current_stream())
        return out
