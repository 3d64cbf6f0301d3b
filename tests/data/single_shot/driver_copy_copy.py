"""Two copies of the driver API, one behind the other on two streams."""

import sys

from cuda.bindings import driver, runtime

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
    z = check(runtime.cudaMalloc(SIZE))
    check(runtime.cudaMemset(z, 7, SIZE))
    check(runtime.cudaDeviceSynchronize())
    check(driver.cuMemcpyDtoDAsync(int(x), int(z), SIZE, int(a)))
    if RIGHT:
        check(driver.cuStreamSynchronize(int(a)))
    check(driver.cuMemcpyDtoDAsync(int(y), int(x), SIZE, int(b)))
    check(runtime.cudaDeviceSynchronize())
    print(y)


main()
