"""Two streams set the same memory."""

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
    y = check(runtime.cudaMalloc(SIZE))
    check(runtime.cudaMemsetAsync(y, 1, SIZE, a))
    if RIGHT:
        check(runtime.cudaStreamSynchronize(a))
    check(runtime.cudaMemsetAsync(y, 2, SIZE, b))
    check(runtime.cudaDeviceSynchronize())
    print(y)


main()
