"""The event is recorded before the work that it is meant for."""

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
    done = check(runtime.cudaEventCreate())
    if not RIGHT:
        check(runtime.cudaEventRecord(done, a))
    check(runtime.cudaMemsetAsync(x, 7, SIZE, a))
    if RIGHT:
        check(runtime.cudaEventRecord(done, a))
    check(runtime.cudaStreamWaitEvent(b, done, 0))
    check(runtime.cudaMemcpyAsync(y, x, SIZE, ANY, b))
    check(runtime.cudaDeviceSynchronize())
    print(y)


main()
