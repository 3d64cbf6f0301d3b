"""Captured frame splitter: crops and a border fill run as parallel graph branches."""
from __future__ import annotations

import ctypes
from collections import deque

import numpy as np
from cuda.bindings import runtime as rt


def check(result):
    if result[0] != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error: {result[0]}")
    if len(result) == 1:
        return None
    return result[1] if len(result) == 2 else result[1:]


def pinned(shape: tuple[int, int]) -> tuple[int, np.ndarray]:
    size = shape[0] * shape[1]
    pointer = int(check(rt.cudaHostAlloc(size, rt.cudaHostAllocDefault)))
    raw = (ctypes.c_ubyte * size).from_address(pointer)
    return pointer, np.frombuffer(raw, dtype=np.uint8).reshape(shape)


class FrameSplitter:
    def __init__(self, height: int, width: int, border: int) -> None:
        self.h, self.w, self.border = height, width, border
        self.main = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.side = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.fork = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.join = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.finished = check(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        self.in_ptr, self.in_host = pinned((height, width))
        self.out_ptr, self.out_host = pinned((height, width))
        self.src = int(check(rt.cudaMalloc(height * width)))
        self.dst = int(check(rt.cudaMalloc(height * width)))
        self.pending = False
        self.results: deque[np.ndarray] = deque()
        self.exec = self._capture()

    def _copy2d(self, dst: int, src: int, width: int, rows: int, stream) -> None:
        kind = rt.cudaMemcpyKind.cudaMemcpyDeviceToDevice
        check(rt.cudaMemcpy2DAsync(dst, self.w, src, self.w, width, rows, kind, stream))

    def _capture(self):
        size, half, b = self.h * self.w, self.h // 2, self.border
        inner = self.w - 2 * b
        h2d = rt.cudaMemcpyKind.cudaMemcpyHostToDevice
        d2h = rt.cudaMemcpyKind.cudaMemcpyDeviceToHost
        mode = rt.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        check(rt.cudaStreamBeginCapture(self.main, mode))
        check(rt.cudaMemsetAsync(self.dst, 0, size, self.main))
        check(rt.cudaMemcpyAsync(self.src, self.in_ptr, size, h2d, self.main))
        check(rt.cudaEventRecord(self.fork, self.main))
        check(rt.cudaStreamWaitEvent(self.side, self.fork, 0))
        low = half * self.w
        self._copy2d(self.dst + b, self.src + low + b, inner, self.h - half, self.side)
        check(rt.cudaEventRecord(self.join, self.side))
        high = (self.h - half) * self.w
        self._copy2d(self.dst + high + b, self.src + b, inner, half, self.main)
        check(rt.cudaStreamWaitEvent(self.main, self.join, 0))
        check(rt.cudaMemcpyAsync(self.out_ptr, self.dst, size, d2h, self.main))
        graph = check(rt.cudaStreamEndCapture(self.main))
        executable = check(rt.cudaGraphInstantiate(graph, 0))
        check(rt.cudaGraphDestroy(graph))
        return executable

    def _collect(self) -> None:
        if self.pending:
            check(rt.cudaEventSynchronize(self.finished))
            self.pending = False
            self.results.append(self.out_host.copy())

    def submit(self, frame: np.ndarray) -> None:
        self._collect()
        self.in_host[...] = frame
        check(rt.cudaGraphLaunch(self.exec, self.main))
        check(rt.cudaEventRecord(self.finished, self.main))
        self.pending = True

    def result(self) -> np.ndarray:
        if not self.results:
            self._collect()
        return self.results.popleft()

    def close(self) -> None:
        check(rt.cudaStreamSynchronize(self.main))
        check(rt.cudaGraphExecDestroy(self.exec))
        for event in (self.fork, self.join, self.finished):
            check(rt.cudaEventDestroy(event))
        self.in_host = self.out_host = None
        for pointer in (self.in_ptr, self.out_ptr):
            check(rt.cudaFreeHost(pointer))
        for pointer in (self.src, self.dst):
            check(rt.cudaFree(pointer))
        for stream in (self.main, self.side):
            check(rt.cudaStreamDestroy(stream))


def main() -> None:
    splitter = FrameSplitter(480, 640, 8)
    rng = np.random.default_rng(2)
    try:
        for _ in range(10):
            splitter.submit(rng.integers(0, 256, (480, 640), dtype=np.uint8))
        print([int(splitter.result().sum()) for _ in range(10)])
    finally:
        splitter.close()


if __name__ == "__main__":
    main()
