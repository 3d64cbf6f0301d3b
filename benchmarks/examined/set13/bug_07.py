import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc

_SOURCE = b"""
extern "C" __global__ void for_decode(const unsigned int* packed, unsigned int* out,
                                      unsigned int reference, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = packed[i] + reference;
}
"""


def _check(result):
    err, *values = result
    if err.value != 0:
        raise RuntimeError(f"cuda error {err}")
    return values[0] if len(values) == 1 else tuple(values)


class CudaSession:
    def __init__(self, ordinal=0):
        _check(driver.cuInit(0))
        dev = _check(driver.cuDeviceGet(ordinal))
        self.ctx = _check(driver.cuDevicePrimaryCtxRetain(dev))
        _check(driver.cuCtxSetCurrent(self.ctx))
        self.stream = _check(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
        prog = _check(nvrtc.nvrtcCreateProgram(_SOURCE, b"for.cu", 0, [], []))
        _check(nvrtc.nvrtcCompileProgram(prog, 0, []))
        ptx = b" " * _check(nvrtc.nvrtcGetPTXSize(prog))
        _check(nvrtc.nvrtcGetPTX(prog, ptx))
        self.ptx = np.char.array(ptx)
        self.module = _check(driver.cuModuleLoadData(self.ptx.ctypes.data))
        self.for_decode = _check(driver.cuModuleGetFunction(self.module, b"for_decode"))


class CudaDeviceBuffer:
    def __init__(self, session, nbytes):
        self.session = session
        self.nbytes = nbytes
        self.ptr = _check(driver.cuMemAlloc(nbytes))

    @classmethod
    def from_host(cls, session, array):
        buf = cls(session, array.nbytes)
        _check(driver.cuMemcpyHtoDAsync(buf.ptr, array.ctypes.data, array.nbytes, session.stream))
        _check(driver.cuStreamSynchronize(session.stream))
        return buf

    def to_host(self, dtype):
        out = np.empty(self.nbytes // np.dtype(dtype).itemsize, dtype=dtype)
        _check(driver.cuMemcpyDtoH(out.ctypes.data, self.ptr, self.nbytes))
        return out


def decode_for(session, packed, reference):
    n = packed.size
    src = CudaDeviceBuffer.from_host(session, packed)
    dst = CudaDeviceBuffer(session, packed.nbytes)
    args = (
        (int(src.ptr), int(dst.ptr), int(reference), n),
        (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int),
    )
    threads = 256
    _check(driver.cuLaunchKernel(session.for_decode, (n + threads - 1) // threads, 1, 1,
                                 threads, 1, 1, 0, session.stream, args, 0))
    return dst.to_host(np.uint32)
