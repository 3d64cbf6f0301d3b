"""Vector add through a thin stream/buffer layer (after the `add` example)."""
import numpy as np
from cuda.bindings import driver as cu
from cuda.bindings import nvrtc
from cuda.bindings import runtime as cudart

SRC = b"""
extern "C" __global__ void add(const float *a, const float *b, float *c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] += a[i] + b[i];
}
"""


def check(ret):
    err, *rest = ret
    if int(err) != 0:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if len(rest) == 1 else rest


def build():
    prog = check(nvrtc.nvrtcCreateProgram(SRC, b"add.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(prog, 0, []))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(prog))
    check(nvrtc.nvrtcGetPTX(prog, ptx))
    mod = check(cu.cuModuleLoadData(ptx))
    return check(cu.cuModuleGetFunction(mod, b"add"))


class DeviceBuffer:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = check(cudart.cudaMalloc(nbytes))

    @classmethod
    def from_slice(cls, array):
        buf = cls(array.nbytes)
        check(cudart.cudaMemcpy(
            buf.ptr, array.ctypes.data, array.nbytes,
            cudart.cudaMemcpyKind.cudaMemcpyHostToDevice))
        return buf

    @classmethod
    def zeroed(cls, nbytes):
        buf = cls(nbytes)
        check(cudart.cudaMemset(buf.ptr, 0, nbytes))
        return buf


def fence_default_stream():
    check(cudart.cudaStreamSynchronize(0))


def launch(fn, n, stream, *bufs):
    ptrs = [np.array([int(b.ptr)], dtype=np.uint64) for b in bufs]
    count = np.array([n], dtype=np.int32)
    args = np.array([p.ctypes.data for p in ptrs] + [count.ctypes.data], dtype=np.uint64)
    check(cu.cuLaunchKernel(fn, (n + 255) // 256, 1, 1, 256, 1, 1, 0, int(stream),
                            args.ctypes.data, 0))


def main():
    check(cudart.cudaFree(0))
    fn = build()
    stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
    n = 1 << 20
    lhs = np.random.rand(n).astype(np.float32)
    rhs = np.random.rand(n).astype(np.float32)
    a = DeviceBuffer.from_slice(lhs)
    b = DeviceBuffer.from_slice(rhs)
    c = DeviceBuffer.zeroed(n * 4)
    fence_default_stream()
    for _ in range(3):
        launch(fn, n, stream, a, b, c)
    out = np.empty(n, np.float32)
    check(cudart.cudaMemcpyAsync(
        out.ctypes.data, c.ptr, out.nbytes,
        cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, stream))
    check(cudart.cudaStreamSynchronize(stream))
    np.testing.assert_allclose(out, 3 * (lhs + rhs), rtol=1e-5)


if __name__ == "__main__":
    main()
