"""Captured transfer plan: one upload, two parallel device copies, one download."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt

H2D = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
D2D = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost


def check(result):
    status, *values = result
    if status != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {status}")
    return values[0] if len(values) == 1 else tuple(values)


def as_floats(pointer, count: int) -> np.ndarray:
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(int(pointer)))


class SplitPlan:
    """Splits interleaved (even, odd) samples into two planes."""

    def __init__(self, pairs: int):
        self.pairs = pairs
        nbytes = pairs * 8
        self.h_in = check(rt.cudaHostAlloc(nbytes, rt.cudaHostAllocDefault))
        self.h_out = check(rt.cudaHostAlloc(nbytes, rt.cudaHostAllocDefault))
        self.d_in = check(rt.cudaMalloc(nbytes))
        self.d_out = check(rt.cudaMalloc(nbytes))
        self.source = as_floats(self.h_in, pairs * 2)
        self.planes = as_floats(self.h_out, pairs * 2).reshape(2, pairs)
        self.main = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.side = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.fork = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.join = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.executable = self._record(nbytes)

    def _plane(self, index: int, stream) -> None:
        dst = int(self.d_out) + index * self.pairs * 4
        src = int(self.d_in) + index * 4
        check(rt.cudaMemcpy2DAsync(dst, 4, src, 8, 4, self.pairs, D2D, stream))

    def _record(self, nbytes: int):
        mode = rt.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        check(rt.cudaStreamBeginCapture(self.main, mode))
        check(rt.cudaMemcpyAsync(self.d_in, self.h_in, nbytes, H2D, self.main))
        check(rt.cudaEventRecord(self.fork, self.main))
        check(rt.cudaStreamWaitEvent(self.side, self.fork, 0))
        self._plane(1, self.side)
        check(rt.cudaEventRecord(self.join, self.side))
        self._plane(0, self.main)
        check(rt.cudaStreamWaitEvent(self.main, self.join, 0))
        check(rt.cudaMemcpyAsync(self.h_out, self.d_out, nbytes, D2H, self.main))
        graph = check(rt.cudaStreamEndCapture(self.main))
        try:
            return check(rt.cudaGraphInstantiate(graph, 0))
        finally:
            check(rt.cudaGraphDestroy(graph))

    def submit(self, samples: np.ndarray) -> None:
        if samples.size != self.pairs * 2:
            raise ValueError("bad sample count")
        check(rt.cudaStreamSynchronize(self.main))
        self.source[:] = samples.reshape(-1)
        check(rt.cudaGraphLaunch(self.executable, self.main))

    def fetch(self) -> np.ndarray:
        check(rt.cudaStreamSynchronize(self.main))
        return self.planes.copy()

    def close(self) -> None:
        check(rt.cudaStreamSynchronize(self.main))
        self.source = self.planes = None
        check(rt.cudaGraphExecDestroy(self.executable))
        for event in (self.fork, self.join):
            check(rt.cudaEventDestroy(event))
        for stream in (self.main, self.side):
            check(rt.cudaStreamDestroy(stream))
        for pointer in (self.h_in, self.h_out):
            check(rt.cudaFreeHost(pointer))
        for pointer in (self.d_in, self.d_out):
            check(rt.cudaFree(pointer))


def split_all(batches, pairs: int):
    plan = SplitPlan(pairs)
    try:
        out = []
        for samples in batches:
            plan.submit(np.asarray(samples, np.float32))
            out.append(plan.fetch())
        return out
    finally:
        plan.close()
