import numpy as np
from cuda.bindings import runtime as cudart


def check(ret):
    err, *rest = ret
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if len(rest) == 1 else rest


def new_stream():
    return check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))


class Runtime:
    """Per-thread state: the stream ops run on and the stream drops go to."""

    def __init__(self):
        self.exec_stream = new_stream()
        self.deallocator_stream = new_stream()


class DeviceBuffer:
    def __init__(self, rt, nbytes):
        self.rt = rt
        self.nbytes = nbytes
        self.ptr = check(cudart.cudaMallocAsync(nbytes, rt.exec_stream))

    def drop(self):
        if self.ptr is not None:
            check(cudart.cudaFreeAsync(self.ptr, self.rt.deallocator_stream))
            self.ptr = None


class Tensor:
    def __init__(self, rt, shape, dtype=np.float32):
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.buf = DeviceBuffer(rt, int(np.prod(shape)) * self.dtype.itemsize)

    def fill_bytes(self, value):
        check(cudart.cudaMemsetAsync(
            self.buf.ptr, value, self.buf.nbytes, self.buf.rt.exec_stream))
        return self

    def to_host_vec(self, pinned_ptr):
        return CopyDeviceToHostVec(self, pinned_ptr)


class CopyDeviceToHostVec:
    def __init__(self, tensor, pinned_ptr):
        self.tensor = tensor
        self.pinned_ptr = pinned_ptr

    def execute(self, rt):
        buf = self.tensor.buf
        check(cudart.cudaMemcpyAsync(
            self.pinned_ptr, buf.ptr, buf.nbytes,
            cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, rt.exec_stream))
        tensor, self.tensor = self.tensor, None
        tensor.buf.drop()
        return self.pinned_ptr


def main():
    lanes = [Runtime(), Runtime()]
    n = 1 << 22
    hosts = [check(cudart.cudaHostAlloc(n * 4, 0)) for _ in range(16)]
    for step, host in enumerate(hosts):
        rt = lanes[step % 2]
        t = Tensor(rt, (n,)).fill_bytes(step)
        t.to_host_vec(host).execute(rt)
    for rt in lanes:
        check(cudart.cudaStreamSynchronize(rt.exec_stream))


if __name__ == "__main__":
    main()
