"""cuda-python runtime: graph of copies and fills replayed over a static staging area."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt

KIND = rt.cudaMemcpyKind


def check(ret):
    err, *rest = ret
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


def pinned(n, dtype):
    nbytes = n * np.dtype(dtype).itemsize
    ptr = int(check(rt.cudaMallocHost(nbytes)))
    raw = (ctypes.c_byte * nbytes).from_address(ptr)
    return np.frombuffer(raw, dtype), ptr


class PadGraph:
    """Pads a fixed-length record with a constant on both sides."""

    def __init__(self, n, pad):
        self.n, self.pad = n, pad
        self.stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.aux = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.fork = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.join = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.src, self.src_ptr = pinned(n, np.uint8)
        self.dst, self.dst_ptr = pinned(n + 2 * pad, np.uint8)
        self.dev = int(check(rt.cudaMalloc(n + 2 * pad)))
        self.exec = self._capture()

    def _capture(self):
        mode = rt.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        check(rt.cudaStreamBeginCapture(self.stream, mode))
        check(rt.cudaEventRecord(self.fork, self.stream))
        check(rt.cudaStreamWaitEvent(self.aux, self.fork, 0))
        check(rt.cudaMemsetAsync(self.dev, 0xFF, self.pad, self.aux))
        check(rt.cudaMemsetAsync(self.dev + self.pad + self.n, 0xFF, self.pad, self.aux))
        check(rt.cudaMemcpyAsync(self.dev + self.pad, self.src_ptr, self.n,
                                 KIND.cudaMemcpyHostToDevice, self.stream))
        check(rt.cudaEventRecord(self.join, self.aux))
        check(rt.cudaStreamWaitEvent(self.stream, self.join, 0))
        check(rt.cudaMemcpyAsync(self.dst_ptr, self.dev, self.n + 2 * self.pad,
                                 KIND.cudaMemcpyDeviceToHost, self.stream))
        graph = check(rt.cudaStreamEndCapture(self.stream))
        try:
            return check(rt.cudaGraphInstantiate(graph, 0))
        finally:
            check(rt.cudaGraphDestroy(graph))

    def __call__(self, record):
        self.src[:] = record
        check(rt.cudaGraphLaunch(self.exec, self.stream))
        check(rt.cudaStreamSynchronize(self.stream))
        return self.dst.copy()


if __name__ == "__main__":
    g = PadGraph(1 << 16, 128)
    for k in range(5):
        print(int(g(np.full(1 << 16, k, np.uint8)).sum()))
