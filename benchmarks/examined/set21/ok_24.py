"""simpleStreams: overlap kernels and downloads in several streams, timed by two events."""
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if len(rest) == 1 else rest or None


SOURCE = """
extern "C" __global__ void init_array(int* data, const int* factor, int iterations) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < iterations; ++k) data[i] += *factor;
}
"""


def build(dev):
    prog = Program(SOURCE, "c++", ProgramOptions(arch=f"sm_{dev.arch}"))
    return prog.compile("cubin").get_kernel("init_array")


class RawStream:
    """Adapter for a stream handle made with the runtime API."""

    def __init__(self, handle):
        self.handle = handle

    def __cuda_stream__(self):
        return (0, int(self.handle))


def run(n=1 << 22, nstreams=4, iterations=5, nreps=10):
    dev = Device()
    dev.set_current()
    kernel = build(dev)
    handles = [check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamDefault)) for _ in range(nstreams)]
    streams = [dev.create_stream(RawStream(h)) for h in handles]

    nbytes = 4 * n
    host_ptr = check(cudart.cudaHostAlloc(nbytes, cudart.cudaHostAllocDefault))
    host = np.frombuffer((ctypes.c_int * n).from_address(int(host_ptr)), dtype=np.int32)
    d_data = check(cudart.cudaMalloc(nbytes))
    d_factor = check(cudart.cudaMalloc(4))
    factor = np.array([5], dtype=np.int32)
    check(cudart.cudaMemcpy(d_factor, factor.ctypes.data, 4, cudart.cudaMemcpyKind.cudaMemcpyHostToDevice))

    start = check(cudart.cudaEventCreate())
    stop = check(cudart.cudaEventCreate())
    chunk = n // nstreams
    config = LaunchConfig(grid=chunk // 512, block=512)
    elapsed = []
    for _ in range(nreps):
        host[:] = -1
        check(cudart.cudaMemset(d_data, 0, nbytes))
        check(cudart.cudaEventRecord(start, 0))
        for i, stream in enumerate(streams):
            launch(stream, config, kernel, int(d_data) + 4 * i * chunk, int(d_factor), np.int32(iterations))
        for i, handle in enumerate(handles):
            offset = 4 * i * chunk
            check(cudart.cudaMemcpyAsync(int(host_ptr) + offset, int(d_data) + offset, 4 * chunk,
                                         cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, handle))
        check(cudart.cudaEventRecord(stop, 0))
        check(cudart.cudaEventSynchronize(stop))
        if not (host == 5 * iterations).all():
            raise AssertionError(host[host != 5 * iterations][:8])
        elapsed.append(check(cudart.cudaEventElapsedTime(start, stop)))

    for handle in handles:
        check(cudart.cudaStreamDestroy(handle))
    check(cudart.cudaFreeHost(host_ptr))
    check(cudart.cudaFree(d_data))
    return float(np.median(elapsed))


if __name__ == "__main__":
    print(f"{run():.3f} ms")
