import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc, runtime

SOURCE = r"""
extern "C" __global__ void accumulate(const float* x, int n, double* sums) {
    double total = 0.0, square = 0.0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        total += x[i];
        square += (double)x[i] * x[i];
    }
    atomicAdd(&sums[0], total);
    atomicAdd(&sums[1], square);
}
"""


def check(result):
    error, *values = result
    if int(error) != 0:
        raise RuntimeError(str(error))
    return values[0] if len(values) == 1 else values


def build(name):
    attr = runtime.cudaDeviceAttr
    major = check(runtime.cudaDeviceGetAttribute(attr.cudaDevAttrComputeCapabilityMajor, 0))
    minor = check(runtime.cudaDeviceGetAttribute(attr.cudaDevAttrComputeCapabilityMinor, 0))
    program = check(nvrtc.nvrtcCreateProgram(SOURCE.encode(), b"sums.cu", 0, [], []))
    options = [f"--gpu-architecture=compute_{major}{minor}".encode()]
    check(nvrtc.nvrtcCompileProgram(program, len(options), options))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(program))
    check(nvrtc.nvrtcGetPTX(program, ptx))
    return check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(ptx)), name))


class StreamingMoments:
    def __init__(self, chunk, slots=2):
        check(runtime.cudaFree(0))
        self.kernel = build(b"accumulate")
        self.chunk = chunk
        flags = runtime.cudaStreamNonBlocking
        self.feed = check(runtime.cudaStreamCreateWithFlags(flags))
        self.work = check(runtime.cudaStreamCreateWithFlags(flags))
        self.pinned = [check(runtime.cudaMallocHost(4 * chunk)) for _ in range(slots)]
        self.views = [np.frombuffer((ctypes.c_char * (4 * chunk)).from_address(p), dtype=np.float32)
                      for p in self.pinned]
        self.sent = [check(runtime.cudaEventCreateWithFlags(runtime.cudaEventDisableTiming))
                     for _ in range(slots)]

    def _push(self, slot, piece, sums):
        size = piece.nbytes
        check(runtime.cudaEventSynchronize(self.sent[slot]))
        self.views[slot][:piece.size] = piece
        data = check(runtime.cudaMallocAsync(size, self.feed))
        check(runtime.cudaMemcpyAsync(data, self.pinned[slot], size,
                                      runtime.cudaMemcpyKind.cudaMemcpyHostToDevice, self.feed))
        check(runtime.cudaEventRecord(self.sent[slot], self.feed))
        check(runtime.cudaStreamWaitEvent(self.work, self.sent[slot], 0))
        args = ((data, piece.size, sums), (ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p))
        check(driver.cuLaunchKernel(self.kernel, 64, 1, 1, 256, 1, 1, 0,
                                    driver.CUstream(int(self.work)), args, 0))
        check(runtime.cudaFreeAsync(data, self.work))

    def run(self, values):
        values = np.ascontiguousarray(values, dtype=np.float32)
        result = np.zeros(2)
        sums = check(runtime.cudaMallocAsync(16, self.work))
        check(runtime.cudaMemsetAsync(sums, 0, 16, self.work))
        for number, start in enumerate(range(0, values.size, self.chunk)):
            self._push(number % len(self.sent), values[start:start + self.chunk], sums)
        check(runtime.cudaMemcpyAsync(result.ctypes.data, sums, 16,
                                      runtime.cudaMemcpyKind.cudaMemcpyDeviceToHost, self.work))
        check(runtime.cudaFreeAsync(sums, self.work))
        check(runtime.cudaStreamSynchronize(self.work))
        count = max(values.size, 1)
        mean = result[0] / count
        return mean, result[1] / count - mean * mean

    def close(self):
        for stream in (self.feed, self.work):
            check(runtime.cudaStreamSynchronize(stream))
            check(runtime.cudaStreamDestroy(stream))
        self.views.clear()
        for event, pointer in zip(self.sent, self.pinned):
            check(runtime.cudaEventDestroy(event))
            check(runtime.cudaFreeHost(pointer))


def main():
    rng = np.random.default_rng(0)
    moments = StreamingMoments(1 << 18)
    try:
        for size in (3_000_000, 10, 0, 1 << 18):
            values = rng.normal(2.0, 3.0, size).astype(np.float32)
            print(size, moments.run(values))
    finally:
        moments.close()


if __name__ == "__main__":
    main()
