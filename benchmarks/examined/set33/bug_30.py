import ctypes

import numpy as np
from cuda.bindings import driver as cu


def check(result):
    err, *values = result
    if err != cu.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"CUDA driver error {err}")
    return values[0] if len(values) == 1 else values


class CudaAllocator:
    STAGING = 16 << 20

    def __init__(self, ordinal: int = 0):
        check(cu.cuInit(0))
        self.device = check(cu.cuDeviceGet(ordinal))
        self.context = check(cu.cuDevicePrimaryCtxRetain(self.device))
        check(cu.cuCtxSetCurrent(self.context))
        self.stream = check(cu.cuStreamCreate(cu.CUstream_flags.CU_STREAM_NON_BLOCKING))
        self.staging = int(check(cu.cuMemHostAlloc(self.STAGING, 0)))

    def alloc(self, nbytes: int) -> int:
        return int(check(cu.cuMemAlloc(nbytes)))

    def free(self, ptr: int) -> None:
        self.synchronize()
        check(cu.cuMemFree(ptr))

    def synchronize(self) -> None:
        check(cu.cuStreamSynchronize(self.stream))

    def copyin(self, dest: int, src: memoryview) -> None:
        view = src.cast("B")
        raw = np.frombuffer(view, dtype=np.uint8)
        for start in range(0, len(view), self.STAGING):
            piece = raw[start : start + self.STAGING]
            ctypes.memmove(self.staging, piece.ctypes.data, piece.nbytes)
            check(cu.cuMemcpyHtoDAsync(dest + start, self.staging, piece.nbytes, self.stream))

    def copyout(self, dest: memoryview, src: int) -> None:
        raw = np.frombuffer(dest.cast("B"), dtype=np.uint8)
        self.synchronize()
        check(cu.cuMemcpyDtoH(raw.ctypes.data, src, raw.nbytes))


class DeviceTensor:
    def __init__(self, allocator: CudaAllocator, array: np.ndarray):
        self.allocator = allocator
        self.shape, self.dtype = array.shape, array.dtype
        self.ptr = allocator.alloc(array.nbytes)
        allocator.copyin(self.ptr, memoryview(np.ascontiguousarray(array)))

    def numpy(self) -> np.ndarray:
        out = np.empty(self.shape, self.dtype)
        self.allocator.copyout(memoryview(out), self.ptr)
        return out


def load_state(allocator: CudaAllocator, arrays: dict) -> dict:
    return {name: DeviceTensor(allocator, arr) for name, arr in arrays.items()}


if __name__ == "__main__":
    alloc = CudaAllocator()
    state = load_state(alloc, {f"w{i}": np.full((1024, 1024), i, np.float32) for i in range(8)})
    print({name: t.numpy()[0, 0] for name, t in state.items()})
