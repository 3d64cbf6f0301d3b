"""A captured double transfer: two branches upload halves, the joined stream downloads."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt


def check(result):
    err, *rest = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else tuple(rest)


class MirrorGraph:
    def __init__(self, nbytes):
        if nbytes % 2:
            raise ValueError("size must be even")
        self.nbytes = nbytes
        self.source_ptr = int(check(rt.cudaHostAlloc(nbytes, rt.cudaHostAllocDefault)))
        self.target_ptr = int(check(rt.cudaHostAlloc(nbytes, rt.cudaHostAllocDefault)))
        self.device = int(check(rt.cudaMalloc(nbytes)))
        self.stream = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.exec = None
        self._record()

    def _record(self):
        half = self.nbytes // 2
        up = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
        down = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
        branch = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        fork = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        join = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        check(rt.cudaStreamBeginCapture(
            self.stream, rt.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal))
        check(rt.cudaEventRecord(fork, self.stream))
        check(rt.cudaStreamWaitEvent(branch, fork, 0))
        check(rt.cudaMemcpyAsync(self.device, self.source_ptr + half, half, up, branch))
        check(rt.cudaMemcpyAsync(self.device + half, self.source_ptr, half, up,
                                 self.stream))
        check(rt.cudaEventRecord(join, branch))
        check(rt.cudaStreamWaitEvent(self.stream, join, 0))
        check(rt.cudaMemcpyAsync(self.target_ptr, self.device, self.nbytes, down,
                                 self.stream))
        graph = check(rt.cudaStreamEndCapture(self.stream))
        self.exec = check(rt.cudaGraphInstantiate(graph, 0))
        check(rt.cudaGraphDestroy(graph))
        check(rt.cudaEventDestroy(fork))
        check(rt.cudaEventDestroy(join))
        check(rt.cudaStreamDestroy(branch))

    def _array(self, ptr):
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.nbytes).from_address(ptr))

    def swap_halves(self, values):
        self._array(self.source_ptr)[:] = values
        check(rt.cudaGraphLaunch(self.exec, self.stream))
        check(rt.cudaStreamSynchronize(self.stream))
        return self._array(self.target_ptr).copy()

    def close(self):
        check(rt.cudaStreamSynchronize(self.stream))
        check(rt.cudaGraphExecDestroy(self.exec))
        check(rt.cudaStreamDestroy(self.stream))
        check(rt.cudaFree(self.device))
        check(rt.cudaFreeHost(self.source_ptr))
        check(rt.cudaFreeHost(self.target_ptr))


def main():
    check(rt.cudaSetDevice(0))
    mirror = MirrorGraph(512)
    try:
        rng = np.random.default_rng(0)
        for _ in range(4):
            values = rng.integers(0, 255, 512, dtype=np.uint8)
            np.testing.assert_array_equal(mirror.swap_halves(values),
                                          np.roll(values, 256))
    finally:
        mirror.close()


if __name__ == "__main__":
    main()
