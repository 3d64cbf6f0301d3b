"""Occupancy grid update: Numba kernel on the stream PyTorch is using."""
import numba
import numpy as np
import torch
from numba import cuda


@cuda.jit
def mark(points, grid, cell):
    i = cuda.grid(1)
    if i < points.shape[0]:
        gx = int(points[i, 0] / cell) + grid.shape[0] // 2
        gy = int(points[i, 1] / cell) + grid.shape[1] // 2
        if 0 <= gx < grid.shape[0] and 0 <= gy < grid.shape[1]:
            cuda.atomic.add(grid, (gx, gy), numba.float32(1.0))


def numba_stream():
    return cuda.external_stream(torch.cuda.current_stream().cuda_stream)


class GridMapper:
    def __init__(self, size=512, cell=0.1):
        self.cell = np.float32(cell)
        self.grid = torch.zeros(size, size, device="cuda")

    def integrate(self, points):
        self.grid.mul_(0.95)
        n = points.shape[0]
        mark[(n + 127) // 128, 128, numba_stream()](
            cuda.as_cuda_array(points), cuda.as_cuda_array(self.grid), self.cell
        )
        return self.grid.clamp(max=50.0)


class Robot:
    def __init__(self, seed=0):
        self.gen = torch.Generator().manual_seed(seed)
        self.mapper = GridMapper()

    def scan(self):
        return (torch.randn(65536, 3, generator=self.gen) * 8).pin_memory()

    def run(self, ticks):
        work = torch.cuda.Stream()
        work.wait_stream(torch.cuda.current_stream())
        occupied = []
        with torch.cuda.stream(work):
            for _ in range(ticks):
                points = self.scan().to("cuda", non_blocking=True)
                occupied.append((self.mapper.integrate(points) > 1.0).sum())
            return torch.stack(occupied).tolist()


if __name__ == "__main__":
    print(Robot().run(200)[-5:])
