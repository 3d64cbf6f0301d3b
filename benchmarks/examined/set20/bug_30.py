"""Device wrapper with stream-ordered allocations and a stream reserved for frees."""
import ctypes

import cupy as cp
import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    if result[0] != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) > 1 else None


SAXPY = cp.RawKernel(r"""
extern "C" __global__ void saxpy_n(const float* x, float* y, int n, float a, int repeat) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float v = y[i]; for (int k = 0; k < repeat; ++k) v = a * x[i] + 0.5f * v; y[i] = v; }
}
""", "saxpy_n")


class CudaSlice:
    def __init__(self, device, ptr, n):
        self.device = device
        self.ptr = ptr
        self.n = n

    def drop(self):
        self.device.free_async(self.ptr)
        self.ptr = 0


class CudaDevice:
    def __init__(self):
        flags = cudart.cudaStreamNonBlocking
        self.stream = check(cudart.cudaStreamCreateWithFlags(flags))
        self.upload_stream = check(cudart.cudaStreamCreateWithFlags(flags))
        self.free_stream = check(cudart.cudaStreamCreateWithFlags(flags))
        self.uploaded = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))

    def alloc_zeros(self, n):
        ptr = check(cudart.cudaMallocAsync(n * 4, self.stream))
        check(cudart.cudaMemsetAsync(ptr, 0, n * 4, self.stream))
        return CudaSlice(self, ptr, n)

    def htod_copy(self, host_ptr, n):
        ptr = check(cudart.cudaMallocAsync(n * 4, self.upload_stream))
        check(cudart.cudaMemcpyAsync(ptr, host_ptr, n * 4,
                                     cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, self.upload_stream))
        check(cudart.cudaEventRecord(self.uploaded, self.upload_stream))
        check(cudart.cudaStreamWaitEvent(self.stream, self.uploaded, 0))
        return CudaSlice(self, ptr, n)

    def free_async(self, ptr):
        check(cudart.cudaFreeAsync(ptr, self.free_stream))

    def saxpy(self, a, x, y, repeat):
        with cp.cuda.ExternalStream(int(self.stream)):
            SAXPY(((x.n + 255) // 256,), (256,),
                  (np.uint64(x.ptr), np.uint64(y.ptr), np.int32(x.n), np.float32(a), np.int32(repeat)))

    def dtoh_sync(self, src, host_ptr):
        check(cudart.cudaMemcpyAsync(host_ptr, src.ptr, src.n * 4,
                                     cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, self.stream))
        check(cudart.cudaStreamSynchronize(self.stream))


def main(n=1 << 22, batches=12):
    dev = CudaDevice()
    check(cudart.cudaDeviceSynchronize())
    pinned = [check(cudart.cudaHostAlloc(n * 4, 0)) for _ in range(batches)]
    for host in pinned:
        ctypes.memset(host, 1, n * 4)
    result = check(cudart.cudaHostAlloc(n * 4, 0))
    acc = dev.alloc_zeros(n)
    for k, host in enumerate(pinned):
        batch = dev.htod_copy(host, n)
        dev.saxpy(0.1 * (k + 1), batch, acc, repeat=200)
        batch.drop()
    dev.dtoh_sync(acc, result)
    acc.drop()
    check(cudart.cudaDeviceSynchronize())
    for host in pinned + [result]:
        check(cudart.cudaFreeHost(host))


if __name__ == "__main__":
    main()
