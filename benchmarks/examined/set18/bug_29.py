from logging import getLogger

import cupy as cp
import numpy as np

MAX_GPU_SLICES = 100

KERNEL = r"""
extern "C" __global__
void median_3x3(const float* padded, float* out, const int height, const int width)
{
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float v[9];
    const int stride = width + 2;
    for (int j = 0; j < 3; ++j)
        for (int i = 0; i < 3; ++i)
            v[3 * j + i] = padded[(y + j) * stride + x + i];
    for (int a = 0; a <= 4; ++a)
        for (int b = a + 1; b < 9; ++b)
            if (v[b] < v[a]) { float t = v[a]; v[a] = v[b]; v[b] = t; }
    out[y * width + x] = v[4];
}
"""

mempool = cp.get_default_memory_pool()


def _free_memory_pool(arrays):
    arrays.clear()
    mempool.free_all_blocks()


def _create_pinned_memory(cpu_array):
    """Copies a numpy array to page-locked memory."""
    mem = cp.cuda.alloc_pinned_memory(cpu_array.nbytes)
    src = np.frombuffer(mem, cpu_array.dtype, cpu_array.size).reshape(cpu_array.shape)
    src[...] = cpu_array
    return src


def _send_single_array_to_gpu(cpu_array, stream):
    """Uploads one array through page-locked memory on the given stream."""
    pinned_memory = _create_pinned_memory(cpu_array)
    gpu_array = cp.empty(pinned_memory.shape, dtype=cpu_array.dtype)
    gpu_array.set(pinned_memory, stream=stream)
    return gpu_array


def _send_arrays_to_gpu_with_pinned_memory(cpu_arrays, streams):
    """Uploads a list of arrays, one stream each."""
    gpu_arrays = []
    try:
        for cpu_array, stream in zip(cpu_arrays, streams):
            gpu_arrays.append(_send_single_array_to_gpu(cpu_array, stream))
        return gpu_arrays
    except cp.cuda.memory.OutOfMemoryError:
        getLogger(__name__).error("Unable to send arrays to GPU. Median filter not performed.")
        _free_memory_pool(gpu_arrays)
        return []


def _create_block_and_grid_args(shape):
    block = (16, 16)
    grid = tuple((n + b - 1) // b for n, b in zip(shape[::-1], block))
    return block, grid


class CudaExecuter:
    def __init__(self):
        self.median = cp.RawKernel(KERNEL, "median_3x3")

    def median_filter(self, data, mode="reflect"):
        """Filters a stack of float32 slices in place and returns it."""
        n_images = data.shape[0]
        slice_limit = min(n_images, MAX_GPU_SLICES)
        streams = [cp.cuda.Stream(non_blocking=True) for _ in range(slice_limit)]
        block, grid = _create_block_and_grid_args(data.shape[1:])
        height, width = np.int32(data.shape[1]), np.int32(data.shape[2])

        for first in range(0, n_images, slice_limit):
            chunk = data[first:first + slice_limit]
            padded = [np.pad(image, 1, mode=mode) for image in chunk]
            gpu_padded = _send_arrays_to_gpu_with_pinned_memory(padded, streams)
            if not gpu_padded:
                return data

            gpu_out = []
            for gpu_image, stream in zip(gpu_padded, streams):
                with stream:
                    out = cp.empty(chunk.shape[1:], dtype=cp.float32)
                    self.median(grid, block, (gpu_image, out, height, width))
                gpu_out.append(out)

            for i, (out, stream) in enumerate(zip(gpu_out, streams)):
                chunk[i] = out.get(stream=stream)
                stream.synchronize()
            _free_memory_pool(gpu_padded)
        return data


def main():
    rng = np.random.default_rng(3)
    stack = rng.random((250, 512, 512), dtype=np.float32)
    filtered = CudaExecuter().median_filter(stack.copy())
    print(stack.std(), filtered.std())


if __name__ == "__main__":
    main()
