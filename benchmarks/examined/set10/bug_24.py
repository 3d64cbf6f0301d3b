import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from cuda.bindings import driver as cuda


def check(result):
    err, *rest = result
    if err != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"CUDA error: {err}")
    return rest[0] if rest else None


class TaskState:
    """Every task owns a non-blocking stream."""

    def __init__(self, device=0):
        check(cuda.cuInit(0))
        self.device = check(cuda.cuDeviceGet(device))
        self.context = check(cuda.cuDevicePrimaryCtxRetain(self.device))
        check(cuda.cuCtxSetCurrent(self.context))
        self.stream = check(cuda.cuStreamCreate(cuda.CUstream_flags.CU_STREAM_NON_BLOCKING))


def unsafe_free(ptr):
    check(cuda.cuMemFreeAsync(ptr, cuda.CUstream(0)))


class CuArray:
    def __init__(self, state, shape, dtype=np.float32):
        self.state = state
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.nbytes = int(np.prod(self.shape)) * self.dtype.itemsize
        ptr = check(cuda.cuMemAllocAsync(self.nbytes, state.stream))
        self.ptr = int(ptr)
        weakref.finalize(self, unsafe_free, self.ptr)

    @classmethod
    def from_host(cls, state, host):
        out = cls(state, host.shape, host.dtype)
        check(cuda.cuMemcpyHtoDAsync(out.ptr, host.ctypes.data, out.nbytes, state.stream))
        check(cuda.cuStreamSynchronize(state.stream))
        return out

    def fill(self, word):
        check(cuda.cuMemsetD32Async(self.ptr, word, self.nbytes // 4, self.state.stream))
        return self

    def copyto(self, src, offset=0):
        check(cuda.cuMemcpyDtoDAsync(self.ptr + offset, src.ptr, src.nbytes, self.state.stream))

    def to_host(self):
        host = np.empty(self.shape, self.dtype)
        check(cuda.cuMemcpyDtoHAsync(host.ctypes.data, self.ptr, self.nbytes, self.state.stream))
        check(cuda.cuStreamSynchronize(self.state.stream))
        return host


class History:
    """Appends snapshots of a field to a preallocated record."""

    def __init__(self, state, steps, n):
        self.state = state
        self.n = n
        self.record = CuArray(state, (steps, n), np.uint32)
        self.row = 0

    def push(self, delta):
        self.record.copyto(delta, self.row * self.n * 4)
        self.row += 1


def simulate(seed, steps=64, n=1 << 20):
    state = TaskState()
    history = History(state, steps, n)
    for step in range(steps):
        delta = CuArray(state, (n,), np.uint32).fill(seed + step)
        history.push(delta)
        del delta
    return history.record.to_host()


def run_ensemble(members=2):
    with ThreadPoolExecutor(members) as pool:
        return list(pool.map(simulate, range(0, 1000 * members, 1000)))
