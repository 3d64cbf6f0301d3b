"""Captured two-branch reduction with event fork and join (runtime API)."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt


def check(res):
    err, rest = res[0], res[1:]
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else rest


def pinned(nbytes):
    ptr = check(rt.cudaMallocHost(nbytes))
    view = np.ctypeslib.as_array(ctypes.cast(ptr, ctypes.POINTER(ctypes.c_uint8)), (nbytes,))
    return ptr, view


class CapturedExchange:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        flags = rt.cudaStreamNonBlocking
        self.launch_stream = check(rt.cudaStreamCreateWithFlags(flags))
        self.side_stream = check(rt.cudaStreamCreateWithFlags(flags))
        ev = rt.cudaEventDisableTiming
        self.fork = check(rt.cudaEventCreateWithFlags(ev))
        self.join = check(rt.cudaEventCreateWithFlags(ev))
        self.src = check(rt.cudaMalloc(nbytes))
        self.left = check(rt.cudaMalloc(nbytes))
        self.right = check(rt.cudaMalloc(nbytes))
        self.in_ptr, self.in_view = pinned(nbytes)
        self.out_ptr, self.out_view = pinned(2 * nbytes)
        self.exec = self._capture()

    def _capture(self):
        kind = rt.cudaMemcpyKind
        main, side, n = self.launch_stream, self.side_stream, self.nbytes
        check(rt.cudaStreamBeginCapture(
            main, rt.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal))
        check(rt.cudaMemcpyAsync(self.src, self.in_ptr, n, kind.cudaMemcpyHostToDevice, main))
        check(rt.cudaEventRecord(self.fork, main))
        check(rt.cudaStreamWaitEvent(side, self.fork, 0))
        check(rt.cudaMemcpyAsync(self.left, self.src, n, kind.cudaMemcpyDeviceToDevice, main))
        check(rt.cudaMemcpyAsync(self.right, self.src, n, kind.cudaMemcpyDeviceToDevice, side))
        check(rt.cudaMemsetAsync(self.right, 0, n // 2, side))
        check(rt.cudaEventRecord(self.join, side))
        check(rt.cudaMemcpyAsync(self.out_ptr, self.left, n, kind.cudaMemcpyDeviceToHost, main))
        check(rt.cudaStreamWaitEvent(main, self.join, 0))
        check(rt.cudaMemcpyAsync(
            self.out_ptr + n, self.right, n, kind.cudaMemcpyDeviceToHost, main))
        graph = check(rt.cudaStreamEndCapture(main))
        return check(rt.cudaGraphInstantiate(graph, 0))

    def run(self, value):
        self.in_view[:] = value
        check(rt.cudaGraphLaunch(self.exec, self.launch_stream))
        check(rt.cudaStreamSynchronize(self.launch_stream))
        return int(self.out_view.sum(dtype=np.int64))

    def close(self):
        check(rt.cudaGraphExecDestroy(self.exec))
        for p in (self.src, self.left, self.right):
            check(rt.cudaFree(p))
        for p in (self.in_ptr, self.out_ptr):
            check(rt.cudaFreeHost(p))


def main():
    exchange = CapturedExchange(16 << 20)
    print([exchange.run(v) for v in range(1, 6)])
    exchange.close()


if __name__ == "__main__":
    main()
