from collections import deque
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
from numba import cuda


@cuda.jit
def accumulate(block, total):
    i = cuda.grid(1)
    if i < block.size:
        total[i] += block[i]


@cuda.jit
def ramp(block, base):
    i = cuda.grid(1)
    if i < block.size:
        block[i] = base + i


@dataclass
class Block:
    data: Any
    last_use: Optional[Any] = None


class BlockPool:
    """Device blocks whose last use is carried along in the free list."""

    def __init__(self, count, size):
        self._free = deque(Block(cuda.device_array(size, np.float32)) for _ in range(count))

    def take(self, stream):
        block = self._free.popleft()
        if block.last_use is not None:
            block.last_use.wait(stream)
        return block

    def give(self, block, stream):
        event = cuda.event(timing=False)
        event.record(stream)
        block.last_use = event
        self._free.append(block)


def main(steps=40, size=1 << 16):
    pool = BlockPool(3, size)
    fill, add = cuda.stream(), cuda.stream()
    total = cuda.to_device(np.zeros(size, np.float32))
    grid = (size + 255) // 256
    for step in range(steps):
        block = pool.take(fill)
        ramp[grid, 256, fill](block.data, np.float32(step))
        filled = cuda.event(timing=False)
        filled.record(fill)
        filled.wait(add)
        accumulate[grid, 256, add](block.data, total)
        pool.give(block, add)
    add.synchronize()
    return total.copy_to_host()


if __name__ == "__main__":
    print(main()[:4])
