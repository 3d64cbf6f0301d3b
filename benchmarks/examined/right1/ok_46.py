"""Scale a list of blocks, one CUDA stream for each block."""
import contextlib
import math

import numpy as np
from numba import cuda

THREADS = 256


@cuda.jit
def scale(x, gain):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] * gain


def scale_blocks(blocks, gain):
    results = [np.empty_like(b) for b in blocks]
    device = []
    with cuda.pinned(*blocks, *results), contextlib.ExitStack() as lanes:
        for block, result in zip(blocks, results):
            stream = lanes.enter_context(cuda.stream().auto_synchronize())
            d_block = cuda.to_device(block, stream=stream)
            device.append(d_block)
            grid = math.ceil(block.size / THREADS)
            scale[grid, THREADS, stream](d_block, gain)
            d_block.copy_to_host(result, stream=stream)
    return np.concatenate(results)


def main():
    rng = np.random.default_rng(6)
    blocks = [rng.random(1 << 20).astype(np.float32) for _ in range(4)]
    merged = scale_blocks(blocks, np.float32(2.5))
    print(merged.sum(), sum(b.sum() for b in blocks))


if __name__ == "__main__":
    main()
