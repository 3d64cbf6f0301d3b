"""Batched smoothing over blocks with stream-ordered temporaries (cuda-python runtime API and CuPy kernels)."""
import cupy as cp
import numpy as np
from cuda.bindings import runtime as rt

_smooth = cp.RawKernel(r'''
extern "C" __global__ void smooth(const float* x, float* y, int n, int half) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0.f; int c = 0;
    for (int d = -half; d <= half; ++d) {
        int j = i + d;
        if (j >= 0 && j < n) { s += x[j]; ++c; }
    }
    y[i] = s / c;
}
''', "smooth")


def ck(result):
    err, *rest = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(err)
    return rest[0] if rest else None


class TempBlock:
    """Temporary from the stream-ordered allocator of one stream."""

    def __init__(self, nbytes, stream):
        self.stream = stream
        self.ptr = int(ck(rt.cudaMallocAsync(nbytes, stream)))

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        ck(rt.cudaFreeAsync(self.ptr, self.stream))


class Smoother:
    def __init__(self, n, half=16):
        self.n, self.half = n, half
        self.load = cp.cuda.Stream(non_blocking=True)
        self.work = cp.cuda.Stream(non_blocking=True)
        self.loaded = cp.cuda.Event(disable_timing=True)

    def process(self, host, out):
        kind = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
        with TempBlock(4 * self.n, self.load.ptr) as tmp:
            ck(rt.cudaMemcpyAsync(tmp.ptr, host.ctypes.data, 4 * self.n, kind, self.load.ptr))
            self.loaded.record(self.load)
            self.work.wait_event(self.loaded)
            with self.work:
                _smooth(((self.n + 255) // 256,), (256,),
                        (np.uintp(tmp.ptr), out, np.int32(self.n), np.int32(self.half)))

    def close(self):
        self.load.synchronize()
        self.work.synchronize()


def main(n=1 << 22, blocks=12):
    smoother = Smoother(n)
    pool = cp.cuda.alloc_pinned_memory(4 * n * blocks)
    source = np.frombuffer(pool, np.float32, n * blocks).reshape(blocks, n)
    source[...] = np.random.default_rng(0).random((blocks, n), dtype=np.float32)
    results = [cp.empty(n, cp.float32) for _ in range(blocks)]
    for block, out in zip(source, results):
        smoother.process(block, out)
    smoother.close()
    print([float(r.std()) for r in results])


if __name__ == "__main__":
    main()
