import ctypes
from dataclasses import dataclass, field

import numpy as np
from cuda.bindings import driver as cuda


def pi_check(result):
    err, *rest = result
    if err != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"PI CUDA ERROR: {err}")
    return rest[0] if rest else None


@dataclass
class Context:
    device: int
    handle: object

    @classmethod
    def create(cls, ordinal=0):
        pi_check(cuda.cuInit(0))
        device = pi_check(cuda.cuDeviceGet(ordinal))
        ctx = pi_check(cuda.cuDevicePrimaryCtxRetain(device))
        pi_check(cuda.cuCtxSetCurrent(ctx))
        return cls(device, ctx)


@dataclass
class MemBuffer:
    ptr: int
    size: int

    def release(self):
        pi_check(cuda.cuMemFree(self.ptr))


def mem_buffer_create(context, size, host=None, fill=None):
    pi_check(cuda.cuCtxSetCurrent(context.handle))
    ptr = pi_check(cuda.cuMemAlloc(size))
    if host is not None:
        host = np.ascontiguousarray(host)
        pi_check(cuda.cuMemcpyHtoD(ptr, host.ctypes.data, host.nbytes))
    elif fill is not None:
        pi_check(cuda.cuMemsetD32(ptr, fill, size // 4))
    return MemBuffer(int(ptr), size)


@dataclass
class Queue:
    context: Context
    stream: object = field(init=False)

    def __post_init__(self):
        self.stream = pi_check(cuda.cuStreamCreate(cuda.CUstream_flags.CU_STREAM_NON_BLOCKING))

    def enqueue_kernel(self, kernel, global_size, local_size, *args):
        values, types = [], []
        for a in args:
            if isinstance(a, MemBuffer):
                values.append(a.ptr)
                types.append(ctypes.c_void_p)
            else:
                values.append(a)
                types.append(ctypes.c_int)
        blocks = (global_size + local_size - 1) // local_size
        params = (tuple(values), tuple(types))
        pi_check(cuda.cuLaunchKernel(kernel, blocks, 1, 1, local_size, 1, 1, 0, self.stream, params, 0))

    def enqueue_read(self, buf, dst):
        pi_check(cuda.cuMemcpyDtoHAsync(dst.ctypes.data, buf.ptr, buf.size, self.stream))
        pi_check(cuda.cuStreamSynchronize(self.stream))
        return dst


def run_saxpy(context, module, x, y, a):
    kernel = pi_check(cuda.cuModuleGetFunction(module, b"saxpy_i32"))
    queue = Queue(context)
    bx = mem_buffer_create(context, x.nbytes, host=x)
    by = mem_buffer_create(context, y.nbytes, host=y)
    acc = mem_buffer_create(context, x.nbytes, fill=0)
    queue.enqueue_kernel(kernel, x.size, 256, bx, by, acc, int(a), x.size)
    out = queue.enqueue_read(acc, np.empty_like(x))
    for b in (bx, by, acc):
        b.release()
    return out
