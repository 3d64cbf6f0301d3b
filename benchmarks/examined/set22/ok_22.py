import ctypes

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
    def __init__(self):
        self.exec_stream = new_stream()
        self.copy_stream = new_stream()
        self.deallocator_stream = new_stream()


class DeviceBuffer:
    def __init__(self, rt, nbytes):
        self.rt = rt
        self.nbytes = nbytes
        self.ptr = check(cudart.cudaMallocAsync(nbytes, rt.exec_stream))
        self.uses = []
        self.touch(rt.exec_stream)

    def touch(self, stream):
        ev = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        check(cudart.cudaEventRecord(ev, stream))
        self.uses.append(ev)

    def order_after_uses(self, stream):
        for ev in self.uses:
            check(cudart.cudaStreamWaitEvent(stream, ev, 0))

    def drop(self):
        stream = self.rt.deallocator_stream
        self.order_after_uses(stream)
        check(cudart.cudaFreeAsync(self.ptr, stream))
        for ev in self.uses:
            check(cudart.cudaEventDestroy(ev))
        self.uses = []
        self.ptr = None


class Tensor:
    def __init__(self, rt, n):
        self.n = n
        self.buf = DeviceBuffer(rt, n * 4)

    def fill_bytes(self, value):
        rt = self.buf.rt
        self.buf.order_after_uses(rt.exec_stream)
        check(cudart.cudaMemsetAsync(
            self.buf.ptr, value, self.buf.nbytes, rt.exec_stream))
        self.buf.touch(rt.exec_stream)
        return self

    def into_host(self, pinned_ptr):
        rt = self.buf.rt
        self.buf.order_after_uses(rt.copy_stream)
        check(cudart.cudaMemcpyAsync(
            pinned_ptr, self.buf.ptr, self.buf.nbytes,
            cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, rt.copy_stream))
        self.buf.touch(rt.copy_stream)
        self.buf.drop()
        check(cudart.cudaStreamSynchronize(rt.copy_stream))


def main():
    rt = Runtime()
    n = 1 << 20
    host = int(check(cudart.cudaHostAlloc(n * 4, 0)))
    view = np.frombuffer((ctypes.c_ubyte * (n * 4)).from_address(host), np.uint8)
    for step in range(16):
        Tensor(rt, n).fill_bytes(step).into_host(host)
        assert view[0] == step and view[-1] == step


if __name__ == "__main__":
    main()
