from contextlib import contextmanager

import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1])
    return rest[0] if len(rest) == 1 else tuple(rest)


@contextmanager
def scratch(nbytes, stream):
    ptr = check(cudart.cudaMallocAsync(nbytes, stream))
    try:
        yield ptr
    finally:
        check(cudart.cudaFreeAsync(ptr, stream))


H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


class Interleaver:
    """Gathers planar channels into packed pixels with strided copies."""

    def __init__(self):
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))

    def pack(self, planes):
        channels, pixels = planes.shape
        item = planes.itemsize
        out = np.empty((pixels, channels), planes.dtype)
        with scratch(planes.nbytes, self.stream) as src, scratch(out.nbytes, self.stream) as dst:
            check(cudart.cudaMemcpyAsync(src, planes.ctypes.data, planes.nbytes, H2D, self.stream))
            for c in range(channels):
                check(cudart.cudaMemcpy2DAsync(
                    dst + c * item, channels * item, src + c * pixels * item, item,
                    item, pixels, D2D, self.stream))
            check(cudart.cudaMemcpyAsync(out.ctypes.data, dst, out.nbytes, D2H, self.stream))
        check(cudart.cudaStreamSynchronize(self.stream))
        return out

    def close(self):
        check(cudart.cudaStreamSynchronize(self.stream))
        check(cudart.cudaStreamDestroy(self.stream))


if __name__ == "__main__":
    packer = Interleaver()
    try:
        for k in range(4):
            planes = np.random.rand(3, 4096).astype(np.float32)
            print(np.array_equal(packer.pack(planes), planes.T))
    finally:
        packer.close()
