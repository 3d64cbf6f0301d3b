"""CuPy over an RMM pool; temporaries shared with a helper stream are joined before return."""
import functools

import cupy as cp
import rmm
from rmm.allocators.cupy import rmm_cupy_allocator


def on_side(method):
    """Run the method on self.side between two joins with the calling stream."""

    @functools.wraps(method)
    def wrapper(self, *args):
        caller = cp.cuda.get_current_stream()
        self.side.wait_event(caller.record())
        with self.side:
            result = method(self, *args)
            done = self.side.record()
        caller.wait_event(done)
        return result

    return wrapper


class Normalizer:
    def __init__(self):
        self.side = cp.cuda.Stream(non_blocking=True)

    @on_side
    def moments(self, x, out):
        out[0] = x.mean()
        out[1] = x.std()

    @on_side
    def clip(self, x, out):
        lo, hi = out[0] - 3 * out[1], out[0] + 3 * out[1]
        cp.clip(x, lo, hi, out=x)

    def __call__(self, x):
        m = cp.empty(2, x.dtype)
        self.moments(x, m)
        self.clip(x, m)
        return (x - m[0]) / m[1]


def main():
    rmm.mr.set_current_device_resource(
        rmm.mr.PoolMemoryResource(rmm.mr.CudaMemoryResource(), initial_pool_size=1 << 28))
    cp.cuda.set_allocator(rmm_cupy_allocator)
    norm = Normalizer()
    totals = []
    with cp.cuda.Stream(non_blocking=True) as work:
        for k in range(8):
            x = cp.random.standard_normal(1 << 20, dtype=cp.float32) * (k + 1)
            totals.append(norm(x).sum())
        work.synchronize()
        norm.side.synchronize()
    return [float(t) for t in totals]


if __name__ == "__main__":
    print(main())
