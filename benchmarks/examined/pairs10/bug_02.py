"""Point-cloud voxel counting: Numba kernels beside a PyTorch pipeline."""
import numpy as np
import torch
from numba import cuda

THREADS = 128


@cuda.jit
def voxel_index(points, inv_size, dims, index):
    i = cuda.grid(1)
    if i < points.shape[0]:
        x = int(points[i, 0] * inv_size)
        y = int(points[i, 1] * inv_size)
        z = int(points[i, 2] * inv_size)
        index[i] = (x * dims + y) * dims + z


@cuda.jit
def histogram(index, counts):
    i = cuda.grid(1)
    if i < index.shape[0]:
        if 0 <= index[i] < counts.shape[0]:
            cuda.atomic.add(counts, index[i], 1)


class Voxelizer:
    """Counts the points of a sweep per voxel."""

    def __init__(self, capacity, dims=64, voxel=0.5):
        self.dims = dims
        self.inv = 1.0 / voxel
        self.torch_stream = torch.cuda.Stream()
        self.stream = cuda.external_stream(self.torch_stream.cuda_stream)
        self.index = cuda.device_array(capacity, dtype=np.int32)
        self.counts = cuda.device_array(dims ** 3, dtype=np.int32)
        self.blocks = (capacity + THREADS - 1) // THREADS
        self.zeros = np.zeros(dims ** 3, dtype=np.int32)

    def __call__(self, sweep):
        points = cuda.to_device(sweep, stream=self.stream)
        voxel_index[self.blocks, THREADS, self.stream](points, self.inv, self.dims, self.index)
        self.counts.copy_to_device(self.zeros)
        histogram[self.blocks, THREADS](self.index, self.counts)
        result = self.counts.copy_to_host()
        self.stream.synchronize()
        return result


def main():
    rng = np.random.default_rng(0)
    capacity = 1 << 20
    vox = Voxelizer(capacity)
    busiest = []
    for _ in range(50):
        sweep = rng.uniform(0.0, 32.0, size=(capacity, 3)).astype(np.float32)
        busiest.append(int(vox(sweep).max()))
    print(max(busiest))


if __name__ == "__main__":
    main()
