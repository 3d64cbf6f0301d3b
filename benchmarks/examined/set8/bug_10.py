import cupy as cp
import numpy as np

_AXPY = r"""
struct Args { float alpha; int n; const float* x; float* y; };
extern "C" __global__ void axpy(const Args* a) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < a->n) a->y[i] += a->alpha * a->x[i];
}
"""

ARGS = np.dtype([("alpha", np.float32), ("n", np.int32),
                 ("x", np.uint64), ("y", np.uint64)], align=True)


class LaunchHandle:

    def __init__(self, kernel, arg_bytes):
        self.kernel = kernel
        self.arg_bytes = arg_bytes
        self.arg_buffer = cp.empty(arg_bytes, dtype=np.uint8)


class KernelLauncher:
    """Uploads the packed arguments of a compiled kernel and launches it."""

    def __init__(self):
        self.handles = {}

    def register(self, name, source, arg_bytes):
        kernel = cp.RawKernel(source, name)
        self.handles[name] = LaunchHandle(kernel, arg_bytes)

    def launch(self, name, packed, n, stream):
        handle = self.handles[name]
        host = np.frombuffer(packed.tobytes(), dtype=np.uint8)
        with stream:
            buf = handle.arg_buffer
            buf.set(host, stream=stream)
            handle.kernel(((n + 255) // 256,), (256,), (buf,))


class Field:

    def __init__(self, n):
        self.data = cp.zeros(n, dtype=np.float32)


class Program:

    def __init__(self):
        self.launcher = KernelLauncher()
        self.launcher.register("axpy", _AXPY, ARGS.itemsize)

    def axpy(self, alpha, x, y, stream):
        packed = np.zeros(1, dtype=ARGS)
        packed["alpha"], packed["n"] = alpha, x.data.size
        packed["x"], packed["y"] = x.data.data.ptr, y.data.data.ptr
        self.launcher.launch("axpy", packed, x.data.size, stream)


def main(n=1 << 22):
    prog = Program()
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
    xs = [Field(n) for _ in streams]
    ys = [Field(n) for _ in streams]
    for i, x in enumerate(xs):
        x.data.fill(i + 1)
    cp.cuda.Device().synchronize()
    for _ in range(50):
        for i, s in enumerate(streams):
            prog.axpy(0.5, xs[i], ys[i], s)
    for s in streams:
        s.synchronize()
    return [float(y.data[0]) for y in ys]


if __name__ == "__main__":
    print(main())
