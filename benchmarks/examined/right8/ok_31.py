"""cuda-python runtime: stream-ordered scratch for each request, freed on the request stream."""
from contextlib import contextmanager

import numpy as np
from cuda.bindings import runtime as rt

H2D = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
D2D = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost


def check(ret):
    err, *rest = ret
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(rt.cudaGetErrorString(err)[1])
    return rest[0] if len(rest) == 1 else rest


@contextmanager
def scratch(nbytes, stream):
    ptr = check(rt.cudaMallocAsync(nbytes, stream))
    try:
        yield ptr
    finally:
        check(rt.cudaFreeAsync(ptr, stream))


@contextmanager
def stream_scope(flags=rt.cudaStreamNonBlocking):
    stream = check(rt.cudaStreamCreateWithFlags(flags))
    try:
        yield stream
    finally:
        check(rt.cudaStreamSynchronize(stream))
        check(rt.cudaStreamDestroy(stream))


def rotate(stream, src, dst, nbytes, shift):
    """Circular shift of a device byte buffer through a scratch copy."""
    with scratch(nbytes, stream) as tmp:
        check(rt.cudaMemcpyAsync(tmp, src, nbytes, D2D, stream))
        check(rt.cudaMemcpyAsync(dst + shift, tmp, nbytes - shift, D2D, stream))
        check(rt.cudaMemcpyAsync(dst, tmp + nbytes - shift, shift, D2D, stream))


def handle(request, shift):
    out = np.empty_like(request)
    with stream_scope() as stream:
        with scratch(request.nbytes, stream) as a, scratch(request.nbytes, stream) as b:
            check(rt.cudaMemcpyAsync(a, request.ctypes.data, request.nbytes, H2D, stream))
            rotate(stream, a, b, request.nbytes, shift * request.itemsize)
            check(rt.cudaMemcpyAsync(out.ctypes.data, b, request.nbytes, D2H, stream))
    return out


if __name__ == "__main__":
    x = np.arange(1 << 20, dtype=np.float32)
    for s in (1, 5, 17):
        print(handle(x, s)[:3])
