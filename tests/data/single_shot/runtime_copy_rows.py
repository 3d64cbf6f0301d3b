"""A copy in rows of what another stream is still setting."""

import sys

from cuda.bindings import runtime

RIGHT = "--right" in sys.argv
SIZE = 1 << 20
ANY = runtime.cudaMemcpyKind.cudaMemcpyDefault


def check(result):
    error, *values = result
    assert int(error) == 0, error
    return values[0] if len(values) == 1 else values


def stream():
    return check(runtime.cudaStreamCreateWithFlags(runtime.cudaStreamNonBlocking))


def main():
    check(runtime.cudaFree(0))
    a, b = stream(), stream()
    x, y = check(runtime.cudaMalloc(SIZE)), check(runtime.cudaMalloc(SIZE))
    check(runtime.cudaMemsetAsync(x, 7, SIZE, a))
    if RIGHT:
        check(runtime.cudaStreamSynchronize(a))
    check(runtime.cudaMemcpy2DAsync(y, 1024, x, 1024, 512, SIZE // 1024, ANY, b))
    check(runtime.cudaDeviceSynchronize())
    print(y)


main()
