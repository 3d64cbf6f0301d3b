"""Device slices filled from page-locked host slices (port of a small Rust driver layer)."""
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart


def check(ret):
    err, *rest = ret
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if len(rest) == 1 else rest


class PinnedHostSlice:
    def __init__(self, n, dtype=np.float32):
        self.n = n
        self.dtype = np.dtype(dtype)
        self.nbytes = n * self.dtype.itemsize
        self.ptr = check(cudart.cudaHostAlloc(self.nbytes, cudart.cudaHostAllocWriteCombined))
        raw = (ctypes.c_byte * self.nbytes).from_address(int(self.ptr))
        self._view = np.frombuffer(raw, dtype=self.dtype)

    def as_mut_slice(self):
        return self._view


class CudaSlice:
    def __init__(self, dev, nbytes):
        self.dev = dev
        self.nbytes = nbytes
        self.ptr = check(cudart.cudaMalloc(nbytes))


class CudaDevice:
    def __init__(self, ordinal=0):
        check(cudart.cudaSetDevice(ordinal))
        self.stream = check(
            cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))

    def alloc_pinned(self, n, dtype=np.float32):
        return PinnedHostSlice(n, dtype)

    def htod_copy_pinned(self, src):
        dst = CudaSlice(self, src.nbytes)
        check(cudart.cudaMemcpyAsync(
            dst.ptr, int(src.ptr), src.nbytes,
            cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, self.stream))
        return dst

    def dtoh_sync_copy(self, src, n, dtype=np.float32):
        host = np.empty(n, dtype)
        check(cudart.cudaMemcpyAsync(
            host.ctypes.data, src.ptr, src.nbytes,
            cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, self.stream))
        check(cudart.cudaStreamSynchronize(self.stream))
        return host


def upload_batches(dev, batches):
    n = batches[0].size
    pinned = dev.alloc_pinned(n)
    slices = []
    for batch in batches:
        pinned.as_mut_slice()[:] = batch
        slices.append(dev.htod_copy_pinned(pinned))
    return slices


def main():
    dev = CudaDevice(0)
    n = 1 << 22
    batches = [np.full(n, float(i), np.float32) for i in range(8)]
    slices = upload_batches(dev, batches)
    for i, s in enumerate(slices):
        host = dev.dtoh_sync_copy(s, n)
        assert (host == float(i)).all()


if __name__ == "__main__":
    main()
