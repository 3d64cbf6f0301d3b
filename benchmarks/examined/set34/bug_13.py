"""Height map extraction for a legged robot; results are written straight to mapped host memory."""
import math

import numpy as np
from numba import cuda


@cuda.jit
def accumulate_heights(points, heights, resolution, half):
    i = cuda.grid(1)
    if i >= points.shape[0]:
        return
    col = int((points[i, 0] + half) / resolution)
    row = int((points[i, 1] + half) / resolution)
    if 0 <= row < heights.shape[0] and 0 <= col < heights.shape[1]:
        cuda.atomic.max(heights, (row, col), points[i, 2])


@cuda.jit
def smooth(heights, out):
    r, c = cuda.grid(2)
    if r >= heights.shape[0] or c >= heights.shape[1]:
        return
    acc = 0.0
    n = 0
    for dr in range(-2, 3):
        for dc in range(-2, 3):
            rr, cc = r + dr, c + dc
            if 0 <= rr < heights.shape[0] and 0 <= cc < heights.shape[1]:
                acc += heights[rr, cc]
                n += 1
    out[r, c] = acc / n


class HeightMapExtractor:
    def __init__(self, size=4.0, resolution=0.01, max_points=500_000):
        self.half = size / 2
        self.resolution = resolution
        self.cells = int(math.ceil(size / resolution))
        self.stream = cuda.stream()
        self.points_host = cuda.pinned_array((max_points, 3), dtype=np.float32)
        self.points = cuda.device_array((max_points, 3), dtype=np.float32)
        self.floor_host = cuda.pinned_array((self.cells, self.cells), dtype=np.float32)
        self.floor_host[:] = -1.0
        self.heights = cuda.device_array((self.cells, self.cells), dtype=np.float32)
        self.map = cuda.mapped_array((self.cells, self.cells), dtype=np.float32)
        self.map[:] = 0.0

    def update(self, cloud):
        n = cloud.shape[0]
        self.stream.synchronize()
        self.points_host[:n] = cloud
        self.points[:n].copy_to_device(self.points_host[:n], stream=self.stream)
        self.heights.copy_to_device(self.floor_host, stream=self.stream)
        accumulate_heights[(n + 255) // 256, 256, self.stream](
            self.points[:n], self.heights, self.resolution, self.half
        )
        grid = ((self.cells + 15) // 16, (self.cells + 15) // 16)
        smooth[grid, (16, 16), self.stream](self.heights, self.map)
        return self.map

    def footholds(self, cloud, radius=5):
        grid = self.update(cloud)
        dx = np.abs(np.diff(grid, axis=1))[:-1]
        dy = np.abs(np.diff(grid, axis=0))[:, :-1]
        flat = np.maximum(dx, dy) < 0.02
        centre = self.cells // 2
        window = flat[centre - radius : centre + radius, centre - radius : centre + radius]
        return np.argwhere(window)


def main():
    rng = np.random.default_rng(3)
    extractor = HeightMapExtractor()
    for _ in range(20):
        cloud = rng.normal(0, 1, (300_000, 3)).astype(np.float32)
        holds = extractor.footholds(cloud)
    print(len(holds))


if __name__ == "__main__":
    main()
