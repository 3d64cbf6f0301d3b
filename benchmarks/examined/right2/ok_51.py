"""Streaming checksum with stream-ordered allocations from cuda-python."""
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorName(err)[1].decode())
    return rest[0] if len(rest) == 1 else tuple(rest)


class PinnedBlock:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = check(cudart.cudaMallocHost(nbytes))
        raw = (ctypes.c_uint8 * nbytes).from_address(self.ptr)
        self.array = np.frombuffer(raw, dtype=np.uint8)
        self.arrived = check(
            cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming)
        )

    def reuse(self):
        check(cudart.cudaEventSynchronize(self.arrived))
        return self.array

    def close(self):
        check(cudart.cudaEventSynchronize(self.arrived))
        check(cudart.cudaEventDestroy(self.arrived))
        check(cudart.cudaFreeHost(self.ptr))


class Assembler:
    """Uploads pages and places them one after another in a device image."""

    def __init__(self, page, count):
        self.page, self.count = page, count
        self.copy = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.work = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.image = check(cudart.cudaMallocAsync(page * count, self.work))
        self.staging = [PinnedBlock(page) for _ in range(2)]

    def place(self, index, data):
        block = self.staging[index % len(self.staging)]
        block.reuse()[:] = data
        dev = check(cudart.cudaMallocAsync(self.page, self.copy))
        check(cudart.cudaMemcpyAsync(dev, block.ptr, self.page, H2D, self.copy))
        check(cudart.cudaEventRecord(block.arrived, self.copy))
        check(cudart.cudaStreamWaitEvent(self.work, block.arrived, 0))
        target = int(self.image) + index * self.page
        check(cudart.cudaMemcpyAsync(target, dev, self.page, D2D, self.work))
        check(cudart.cudaFreeAsync(dev, self.work))

    def download(self):
        out = np.empty(self.page * self.count, dtype=np.uint8)
        check(cudart.cudaMemcpyAsync(out.ctypes.data, self.image, out.nbytes, D2H, self.work))
        check(cudart.cudaStreamSynchronize(self.work))
        return out

    def close(self):
        check(cudart.cudaFreeAsync(self.image, self.work))
        check(cudart.cudaStreamSynchronize(self.work))
        for block in self.staging:
            block.close()
        check(cudart.cudaStreamDestroy(self.copy))
        check(cudart.cudaStreamDestroy(self.work))


def main(page=1 << 16, count=32):
    asm = Assembler(page, count)
    try:
        for i in range(count):
            asm.place(i, np.full(page, i, dtype=np.uint8))
        return asm.download()
    finally:
        asm.close()


if __name__ == "__main__":
    print(main()[:: 1 << 16])
