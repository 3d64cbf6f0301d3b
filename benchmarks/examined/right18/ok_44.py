"""A captured diamond of copies relaunched with new pinned input (cuda-python)."""
import ctypes

import numpy as np
from cuda.bindings import runtime as rt

KIND = rt.cudaMemcpyKind


def good(result):
    if result[0] != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) == 2 else result[1:]


def host_bytes(n):
    ptr = int(good(rt.cudaMallocHost(n)))
    view = np.ctypeslib.as_array((ctypes.c_uint8 * n).from_address(ptr))
    return ptr, view


class MirrorGraph:
    """Writes a block next to a shifted copy of itself and returns both."""

    def __init__(self, n, shift):
        self.n, self.shift = n, shift % n
        self.in_ptr, self.inbox = host_bytes(n)
        self.out_ptr, self.outbox = host_bytes(2 * n)
        self.block = int(good(rt.cudaMalloc(n)))
        self.both = int(good(rt.cudaMalloc(2 * n)))
        flags = rt.cudaStreamNonBlocking
        self.main = good(rt.cudaStreamCreateWithFlags(flags))
        self.side = good(rt.cudaStreamCreateWithFlags(flags))
        self.exec = self._capture()
        self.pending = False

    def _copy(self, dst, src, size, kind, stream):
        if size:
            good(rt.cudaMemcpyAsync(dst, src, size, kind, stream))

    def _capture(self):
        fork = good(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        join = good(rt.cudaEventCreateWithFlags(rt.cudaEventDisableTiming))
        d2d, n, k = KIND.cudaMemcpyDeviceToDevice, self.n, self.shift
        mode = rt.cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        good(rt.cudaStreamBeginCapture(self.main, mode))
        self._copy(self.block, self.in_ptr, n, KIND.cudaMemcpyHostToDevice, self.main)
        good(rt.cudaEventRecord(fork, self.main))
        good(rt.cudaStreamWaitEvent(self.side, fork, 0))
        self._copy(self.both, self.block, n, d2d, self.main)
        self._copy(self.both + n, self.block + k, n - k, d2d, self.side)
        self._copy(self.both + 2 * n - k, self.block, k, d2d, self.side)
        good(rt.cudaEventRecord(join, self.side))
        good(rt.cudaStreamWaitEvent(self.main, join, 0))
        self._copy(
            self.out_ptr, self.both, 2 * n, KIND.cudaMemcpyDeviceToHost, self.main
        )
        graph = good(rt.cudaStreamEndCapture(self.main))
        executable = good(rt.cudaGraphInstantiate(graph, 0))
        good(rt.cudaGraphDestroy(graph))
        for event in (fork, join):
            good(rt.cudaEventDestroy(event))
        return executable

    def start(self, data):
        self.wait()
        self.inbox[:] = np.frombuffer(data, dtype=np.uint8)
        good(rt.cudaGraphLaunch(self.exec, self.main))
        self.pending = True

    def wait(self):
        if self.pending:
            good(rt.cudaStreamSynchronize(self.main))
            self.pending = False

    def take(self):
        self.wait()
        return self.outbox[: self.n].tobytes(), self.outbox[self.n :].tobytes()

    def close(self):
        self.wait()
        good(rt.cudaGraphExecDestroy(self.exec))
        for ptr in (self.block, self.both):
            good(rt.cudaFree(ptr))
        for ptr in (self.in_ptr, self.out_ptr):
            good(rt.cudaFreeHost(ptr))


def mirror_blocks(blocks, shift=3):
    graphs = [MirrorGraph(len(blocks[0]), shift) for _ in range(2)] if blocks else []
    results = []
    try:
        for number, block in enumerate(blocks):
            graph = graphs[number % 2]
            if number >= 2:
                results.append(graph.take())
            graph.start(block)
        for number in range(max(len(blocks) - 2, 0), len(blocks)):
            results.append(graphs[number % 2].take())
    finally:
        for graph in graphs:
            graph.close()
    return results
