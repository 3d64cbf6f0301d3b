"""Streams simulation frames to a consumer thread; a host function marks every finished download."""
import ctypes
import queue
import threading

import numpy as np
from cuda.bindings import driver, nvrtc
from cuda.bindings import runtime as cudart

SRC = rb"""
extern "C" __global__ void wave(float* u, const float* v, int n, float t) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) u[i] = 0.99f * v[i] + 0.01f * sinf(0.001f * i + t);
}
"""


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


def build(name):
    prog = check(nvrtc.nvrtcCreateProgram(SRC, b"wave.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(prog, 0, []))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(prog))
    check(nvrtc.nvrtcGetPTX(prog, ptx))
    return check(driver.cuModuleGetFunction(check(driver.cuModuleLoadData(ptx)), name))


class CompletionNotifier:
    """Turns host functions of a stream into entries of a queue."""

    _PROTO = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    def __init__(self):
        self.finished = queue.SimpleQueue()
        self._thunk = self._PROTO(lambda data: self.finished.put(int(data or 0)))
        self._fn = cudart.cudaHostFn_t(_ptr=ctypes.addressof(self._thunk))

    def enqueue(self, stream, tag):
        check(cudart.cudaLaunchHostFunc(stream, self._fn, tag))


class FrameStreamer:
    def __init__(self, n, slots=3):
        self.n = n
        self.nbytes = n * 4
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.fields = [check(cudart.cudaMalloc(self.nbytes)) for _ in range(2)]
        for f in self.fields:
            check(cudart.cudaMemsetAsync(f, 0, self.nbytes, self.stream))
        self.host = []
        for _ in range(slots):
            ptr = check(cudart.cudaMallocHost(self.nbytes))
            self.host.append(np.ctypeslib.as_array((ctypes.c_float * n).from_address(ptr)))
        self.free = queue.SimpleQueue()
        for s in range(slots):
            self.free.put(s)
        self.notifier = CompletionNotifier()
        self.kernel = build(b"wave")
        self.frames = []
        self.consumer = threading.Thread(target=self._consume)

    def _consume(self):
        while True:
            tag = self.notifier.finished.get()
            if tag == len(self.host):
                return
            self.frames.append(self.host[tag][::4096].copy())
            self.free.put(tag)

    def _step(self, t):
        dst, src = self.fields
        args = ((int(dst), int(src), self.n, t),
                (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_float))
        check(driver.cuLaunchKernel(self.kernel, (self.n + 255) // 256, 1, 1, 256, 1, 1,
                                    0, int(self.stream), args, 0))
        self.fields.reverse()
        return dst

    def run(self, steps, every=4):
        self.consumer.start()
        for k in range(steps):
            latest = self._step(0.05 * k)
            if k % every == 0:
                slot = self.free.get()
                check(cudart.cudaMemcpyAsync(self.host[slot].ctypes.data, latest, self.nbytes,
                                             cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, self.stream))
                self.notifier.enqueue(self.stream, slot)
        self.notifier.enqueue(self.stream, len(self.host))
        check(cudart.cudaStreamSynchronize(self.stream))
        self.consumer.join()
        return np.stack(self.frames)


if __name__ == "__main__":
    check(cudart.cudaFree(0))
    streamer = FrameStreamer(1 << 24)
    print(streamer.run(400).shape)
