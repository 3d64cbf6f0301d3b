import ctypes

import numpy as np
from cuda.bindings import driver as cuda


def check(result):
    err, *rest = result
    if err != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"CUDA driver error {err}")
    return rest[0] if len(rest) == 1 else rest


class CUDAContext:
    def __init__(self, ordinal=0):
        check(cuda.cuInit(0))
        self.device = check(cuda.cuDeviceGet(ordinal))
        self.ctx = check(cuda.cuDevicePrimaryCtxRetain(self.device))
        check(cuda.cuCtxSetCurrent(self.ctx))
        self.active_stream = check(cuda.cuStreamCreate(cuda.CUstream_flags.CU_STREAM_NON_BLOCKING))

    def launch(self, func, grid, block, args):
        values = tuple(a for a, _ in args)
        types = tuple(t for _, t in args)
        check(cuda.cuLaunchKernel(func, grid, 1, 1, block, 1, 1, 0, self.active_stream, (values, types), 0))


class LlvmRuntimeExecutor:
    """Host side of the runtime: answers small queries with kernels that fill a result buffer."""

    def __init__(self, context, module_image, n_results=32):
        self.context = context
        self.module = check(cuda.cuModuleLoadData(module_image))
        self.functions = {}
        self.result_buffer = check(cuda.cuMemAlloc(8 * n_results))
        self.runtime_ptr = check(cuda.cuMemAlloc(1 << 20))
        self.stride_field_ptr = None

    def _function(self, name):
        if name not in self.functions:
            self.functions[name] = check(cuda.cuModuleGetFunction(self.module, name.encode()))
        return self.functions[name]

    def jit_call(self, name, *args):
        packed = [(int(self.runtime_ptr), ctypes.c_void_p), (int(self.result_buffer), ctypes.c_void_p)]
        packed += [(int(a), ctypes.c_uint64) for a in args]
        self.context.launch(self._function(name), 1, 1, packed)

    def synchronize(self):
        check(cuda.cuStreamSynchronize(cuda.CUstream(0)))

    def fetch_result_uint64(self, i):
        self.synchronize()
        ret = np.zeros(1, dtype=np.uint64)
        check(cuda.cuMemcpyDtoH(ret.ctypes.data, int(self.result_buffer) + 8 * i, 8))
        return int(ret[0])

    def publish_adstack_metadata(self, offsets):
        if self.stride_field_ptr is None:
            self.jit_call("runtime_get_adstack_metadata_field_ptrs")
            self.stride_field_ptr = self.fetch_result_uint64(0)
        offsets = np.ascontiguousarray(offsets, dtype=np.uint64)
        self.jit_call("runtime_eval_adstack_size_expr", offsets.size)
        stride = self.fetch_result_uint64(1)
        return self.stride_field_ptr, stride
