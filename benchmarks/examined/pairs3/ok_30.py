"""Captured upload + scale + download with cuda-python, replayed per message."""
import ctypes

import cupy as cp
import numpy as np
from cuda.bindings import runtime as rt

scale = cp.RawKernel(r"""
extern "C" __global__ void scale(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * 2.f + 1.f;
}""", "scale")


def ok(result):
    err, *values = result
    assert err == rt.cudaError_t.cudaSuccess, err
    return values[0] if values else None


def pinned_floats(n):
    ptr = ok(rt.cudaMallocHost(4 * n))
    return np.frombuffer((ctypes.c_float * n).from_address(int(ptr)), dtype=np.float32)


class MessageGraph:
    def __init__(self, n):
        self.n = n
        self.inbox, self.outbox = pinned_floats(n), pinned_floats(n)
        self.device = ok(rt.cudaMalloc(4 * n))
        self.view = cp.ndarray(n, cp.float32, cp.cuda.MemoryPointer(
            cp.cuda.UnownedMemory(int(self.device), 4 * n, self), 0))
        self.stream = ok(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        scale.compile()
        ok(rt.cudaStreamBeginCapture(self.stream, rt.cudaStreamCaptureMode.cudaStreamCaptureModeRelaxed))
        self._record()
        graph = ok(rt.cudaStreamEndCapture(self.stream))
        self.exec = ok(rt.cudaGraphInstantiate(graph, 0))

    def _record(self):
        kinds = rt.cudaMemcpyKind
        ok(rt.cudaMemcpyAsync(self.device, self.inbox.ctypes.data, 4 * self.n,
                              kinds.cudaMemcpyHostToDevice, self.stream))
        with cp.cuda.ExternalStream(int(self.stream)):
            scale(((self.n + 255) // 256,), (256,), (self.view, np.int32(self.n)))
        ok(rt.cudaMemcpyAsync(self.outbox.ctypes.data, self.device, 4 * self.n,
                              kinds.cudaMemcpyDeviceToHost, self.stream))

    def send(self, message):
        self.inbox[:] = message
        ok(rt.cudaGraphLaunch(self.exec, self.stream))
        ok(rt.cudaStreamSynchronize(self.stream))
        return self.outbox.copy()


def main(n=1 << 20):
    graph = MessageGraph(n)
    rng = np.random.default_rng(9)
    for _ in range(100):
        message = rng.random(n, dtype=np.float32)
        assert np.allclose(graph.send(message), message * 2 + 1)


if __name__ == "__main__":
    main()
