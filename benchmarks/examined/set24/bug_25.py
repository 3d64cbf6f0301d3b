"""Device buffers for sparse grids, managed per device."""
import ctypes

import numpy as np
from cuda import cuda


def check(result):
    err, *rest = result
    if err != cuda.CUresult.CUDA_SUCCESS:
        raise RuntimeError(str(err))
    return rest[0] if rest else None


class DeviceBuffer:
    """Host/device pair with managed device memory."""

    def __init__(self, nbytes, stream):
        self.nbytes = nbytes
        self.host = check(cuda.cuMemAllocHost(nbytes))
        self.gpu = check(cuda.cuMemAllocAsync(nbytes, stream))

    def host_view(self, dtype):
        raw = (ctypes.c_uint8 * self.nbytes).from_address(self.host)
        return np.frombuffer(raw, dtype=dtype)

    def device_upload(self, stream):
        check(cuda.cuMemcpyHtoDAsync(self.gpu, self.host, self.nbytes, stream))

    def copy_to(self, dst, offset, stream):
        check(cuda.cuMemcpyDtoDAsync(int(dst) + offset, self.gpu, self.nbytes, stream))

    def clear(self):
        if self.gpu is not None:
            check(cuda.cuMemFreeAsync(self.gpu, cuda.CUstream(0)))
            self.gpu = None


class GridMerger:
    def __init__(self, n_leaves, leaf_bytes):
        self.leaf_bytes = leaf_bytes
        flags = cuda.CUstream_flags.CU_STREAM_NON_BLOCKING
        self.streams = [check(cuda.cuStreamCreate(flags)) for _ in range(2)]
        self.merged = check(cuda.cuMemAlloc(n_leaves * leaf_bytes))
        self.hosts = []

    def add_leaf(self, index, values):
        stream = self.streams[index % 2]
        leaf = DeviceBuffer(self.leaf_bytes, stream)
        leaf.host_view(np.float32)[:] = values
        leaf.device_upload(stream)
        leaf.copy_to(self.merged, index * self.leaf_bytes, stream)
        leaf.clear()
        self.hosts.append(leaf.host)

    def finish(self):
        for s in self.streams:
            check(cuda.cuStreamSynchronize(s))
        for h in self.hosts:
            check(cuda.cuMemFreeHost(h))
        self.hosts.clear()


def main():
    check(cuda.cuInit(0))
    dev = check(cuda.cuDeviceGet(0))
    ctx = check(cuda.cuDevicePrimaryCtxRetain(dev))
    check(cuda.cuCtxSetCurrent(ctx))
    merger = GridMerger(64, 4 << 20)
    for i in range(64):
        merger.add_leaf(i, np.float32(i))
    merger.finish()


if __name__ == "__main__":
    main()
