"""Device arrays whose memory is returned by finalizers."""
import weakref
import numpy as np
from cuda.bindings import runtime as cudart

D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def ck(ret):
    if int(ret[0]) != 0:
        raise RuntimeError(cudart.cudaGetErrorString(ret[0])[1])
    return ret[1] if len(ret) == 2 else None


def new_stream():
    return ck(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))


class Runtime:
    def __init__(self):
        self.compute = new_stream()
        self.service = new_stream()


def _unsafe_free(ptr, stream):
    ck(cudart.cudaFreeAsync(ptr, stream))


class DeviceArray:
    def __init__(self, rt, nbytes, stream):
        self.nbytes = nbytes
        self.ptr = ck(cudart.cudaMallocAsync(nbytes, stream))
        self._finalizer = weakref.finalize(self, _unsafe_free, self.ptr, rt.service)

    def fill(self, byte, stream):
        ck(cudart.cudaMemsetAsync(self.ptr, byte, self.nbytes, stream))
        return self

    def copy_from(self, other, stream):
        ck(cudart.cudaMemcpyAsync(self.ptr, other.ptr, self.nbytes, D2D, stream))


def smooth(rt, field, sweeps):
    """Ping-pong `field` through a temporary on the compute stream."""
    tmp = DeviceArray(rt, field.nbytes, rt.compute)
    for _ in range(sweeps):
        tmp.copy_from(field, rt.compute)
        field.copy_from(tmp, rt.compute)
    return field


def main(nbytes=1 << 28):
    rt = Runtime()
    field = DeviceArray(rt, nbytes, rt.compute).fill(3, rt.compute)
    smooth(rt, field, 200)

    halo = DeviceArray(rt, nbytes, rt.service).fill(0, rt.service)
    ck(cudart.cudaStreamSynchronize(rt.service))

    out = np.empty(nbytes, np.uint8)
    ck(cudart.cudaMemcpyAsync(out.ctypes.data, field.ptr, nbytes, D2H, rt.compute))
    ck(cudart.cudaStreamSynchronize(rt.compute))
    assert (out == 3).all(), np.unique(out)
    return halo


if __name__ == "__main__":
    main()
