"""Splat rasterizer front end: PyTorch render stream with a CuPy binning kernel."""
import math

import cupy as cp
import numpy as np
import torch

_bin = cp.RawKernel(r"""
extern "C" __global__ void bin_tiles(const float* xy, int* count, int n, int tiles_x, int tiles_y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int tx = (int)(xy[2*i] * tiles_x), ty = (int)(xy[2*i+1] * tiles_y);
    if (tx < 0 || ty < 0 || tx >= tiles_x || ty >= tiles_y) return;
    atomicAdd(&count[ty * tiles_x + tx], 1);
}
""", "bin_tiles")


class TileBinner:
    def __init__(self, width, height, tile=16):
        self.tx, self.ty = math.ceil(width / tile), math.ceil(height / tile)

    def __call__(self, xy):
        n = xy.shape[0]
        count = torch.zeros(self.ty, self.tx, dtype=torch.int32, device=xy.device)
        args = (cp.asarray(xy), cp.asarray(count), np.int32(n), np.int32(self.tx), np.int32(self.ty))
        _bin(((n + 255) // 256,), (256,), args)
        return count


class RenderLoop:
    def __init__(self, points, width=1280, height=720):
        self.points = points
        self.stream = torch.cuda.Stream(priority=-1)
        self.stream.wait_stream(torch.cuda.current_stream())
        self.binner = TileBinner(width, height)

    def draw(self, t):
        with torch.cuda.stream(self.stream):
            rot = torch.tensor([[math.cos(t), -math.sin(t)], [math.sin(t), math.cos(t)]]).to("cuda")
            xy = (self.points @ rot) * 0.25 + 0.5
            heat = self.binner(xy.contiguous()).float()
            heat = heat / heat.amax().clamp(min=1)
            return heat.cpu()


def main():
    loop = RenderLoop(torch.randn(2_000_000, 2, device="cuda"))
    frames = [loop.draw(0.02 * k) for k in range(200)]
    print(torch.stack(frames).mean())


if __name__ == "__main__":
    main()
