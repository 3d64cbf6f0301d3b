import numpy as np
import rmm
from numba import cuda
from rmm.allocators.numba import RMMNumbaManager

cuda.set_memory_manager(RMMNumbaManager)
rmm.mr.set_current_device_resource(rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource()))


@cuda.jit
def scan_step(src, dst, offset):
    i = cuda.grid(1)
    if i < src.size:
        dst[i] = src[i] + (src[i - offset] if i >= offset else 0)


def inclusive_scan(values):
    """Doubling scan with a fresh array per round, all on the default stream."""
    cur = cuda.to_device(values)
    offset = 1
    blocks = (values.size + 255) // 256
    while offset < values.size:
        nxt = cuda.device_array_like(cur)
        scan_step[blocks, 256](cur, nxt, offset)
        cur = nxt
        offset *= 2
    return cur.copy_to_host()


def compact(values, keep):
    flags = keep(values).astype(np.int64)
    slots = inclusive_scan(flags)
    out = np.empty(int(slots[-1]), values.dtype)
    out[slots[flags == 1] - 1] = values[flags == 1]
    return out


if __name__ == "__main__":
    data = np.random.rand(100000)
    for level in (0.2, 0.5, 0.9):
        got = compact(data, lambda v: v > level)
        print(level, np.array_equal(got, data[data > level]))
