"""Kernels that take their functor from one shared constant buffer."""
import threading
import numpy as np
import cupy as cp
import cupyx

_module = cp.RawModule(code=r'''
extern "C" {
__constant__ float functor[64];
__global__ void parallel_for(float* x, int n, int iters) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    for (int k = 0; k < iters; ++k) v += functor[k & 63];
    x[i] = v;
}
}''')


class ConstantMemory:
    """The device's functor buffer, with what guards it."""

    def __init__(self):
        self.kernel = _module.get_function('parallel_for')
        self.symbol = cp.ndarray((64,), cp.float32, _module.get_global('functor'))
        self.staging = cupyx.empty_pinned((64,), dtype=np.float32)
        self.last_use = cp.cuda.Event(disable_timing=True)
        self.mutex = threading.Lock()

    def launch(self, stream, functor, x, iters):
        with self.mutex:
            self.last_use.synchronize()
            self.staging[:] = functor
            self.symbol.set(self.staging, stream=stream)
            grid = ((x.size + 255) // 256,)
            self.kernel(grid, (256,), (x, np.int32(x.size), np.int32(iters)),
                        stream=stream)
            self.last_use.record(stream)


class Instance(threading.Thread):
    def __init__(self, constant, value, n, reps):
        super().__init__()
        self.constant = constant
        self.functor = np.full(64, value, np.float32)
        self.n, self.reps = n, reps
        self.result = None

    def run(self):
        stream = cp.cuda.Stream(non_blocking=True)
        with stream:
            x = cp.zeros((self.n,), dtype=cp.float32)
            for _ in range(self.reps):
                self.constant.launch(stream, self.functor, x, 1024)
            self.result = cp.asnumpy(x)


def main(n=1 << 20):
    constant = ConstantMemory()
    workers = [Instance(constant, v, n, 10) for v in (1.0, 2.0, 4.0)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
        print(w.result.min(), w.result.max())


if __name__ == "__main__":
    main()
