import ctypes

import numpy as np
from cuda.bindings import driver as cu
from cuda.bindings import nvrtc
from cuda.bindings import runtime as cudart

_SOURCE = b'''
extern "C" __global__ void attn_input_proj(const float* x, const float* w, float* out, int rows, int k) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float acc = 0.0f;
    for (int i = 0; i < k; ++i) acc += x[i] * w[r * k + i];
    out[r] = acc;
}
'''


def check(result):
    err, *values = result
    if int(err) != 0:
        raise RuntimeError(f"CUDA call failed: {err}")
    return values[0] if len(values) == 1 else values


class DeviceContext:
    def __init__(self, ordinal=0):
        check(cudart.cudaSetDevice(ordinal))
        check(cudart.cudaFree(0))
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))

    def load_kernel(self, name: bytes):
        prog = check(nvrtc.nvrtcCreateProgram(_SOURCE, b"op.cu", 0, [], []))
        check(nvrtc.nvrtcCompileProgram(prog, 0, []))
        ptx = b" " * check(nvrtc.nvrtcGetPTXSize(prog))
        check(nvrtc.nvrtcGetPTX(prog, ptx))
        module = check(cu.cuModuleLoadData(ptx))
        return check(cu.cuModuleGetFunction(module, name))


class DeviceBuffer:
    def __init__(self, nbytes: int):
        self.nbytes = nbytes
        self.ptr = check(cudart.cudaMalloc(nbytes))

    @classmethod
    def from_host(cls, host: np.ndarray):
        buf = cls(host.nbytes)
        buf.copy_from_host(host)
        return buf

    def copy_from_host(self, host: np.ndarray):
        check(cudart.cudaMemcpy(self.ptr, host.ctypes.data, host.nbytes,
                                cudart.cudaMemcpyKind.cudaMemcpyHostToDevice))

    def copy_to_host(self, host: np.ndarray, stream):
        check(cudart.cudaMemcpyAsync(host.ctypes.data, self.ptr, host.nbytes,
                                     cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, stream))
        check(cudart.cudaStreamSynchronize(stream))


def attn_input_proj(ctx: DeviceContext, fn, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    rows, k = w.shape
    d_x = DeviceBuffer.from_host(x)
    d_w = DeviceBuffer.from_host(w)
    d_out = DeviceBuffer(rows * 4)
    values = (int(d_x.ptr), int(d_w.ptr), int(d_out.ptr), rows, k)
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    grid = (rows + 255) // 256
    check(cu.cuLaunchKernel(fn, grid, 1, 1, 256, 1, 1, 0, int(ctx.stream), (values, types), 0))
    out = np.empty(rows, dtype=np.float32)
    d_out.copy_to_host(out, ctx.stream)
    return out


def test_attn_input_proj():
    ctx = DeviceContext()
    fn = ctx.load_kernel(b"attn_input_proj")
    rng = np.random.default_rng(0)
    x = rng.standard_normal(2560, dtype=np.float32)
    w = rng.standard_normal((4096, 2560), dtype=np.float32)
    np.testing.assert_allclose(attn_input_proj(ctx, fn, x, w), w @ x, rtol=1e-3, atol=1e-2)
