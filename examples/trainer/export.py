"""Writes checkpoints with cuda-python, and tells the writer thread when a copy is done."""

import ctypes
import queue

import numpy as np
from cuda.bindings import runtime as cudart

HOST_FN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def check(result):
    error, *values = result
    if error != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(error)
    return values[0] if len(values) == 1 else values


class Exporter:
    """Copies weights out and frees them in a host callback, where no CUDA call is allowed."""

    def __init__(self):
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.done = queue.SimpleQueue()

    def export(self, device_pointer, count):
        host = np.empty(count, dtype=np.float32)

        def finish(_):
            cudart.cudaFree(device_pointer)
            self.done.put(host)

        self.callback = HOST_FN(finish)
        check(
            cudart.cudaMemcpyAsync(
                host.ctypes.data,
                device_pointer,
                host.nbytes,
                cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost,
                self.stream,
            )
        )
        check(cudart.cudaLaunchHostFunc(self.stream, ctypes.cast(self.callback, ctypes.c_void_p).value, 0))
        return host


class QueueingExporter:
    """The same, with a callback that only passes a token; the thread that takes it frees the memory."""

    def __init__(self):
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.done = queue.SimpleQueue()
        self.callback = HOST_FN(self.finish)

    def finish(self, _):
        self.done.put(None)

    def export(self, device_pointer, count):
        host = np.empty(count, dtype=np.float32)
        check(
            cudart.cudaMemcpyAsync(
                host.ctypes.data,
                device_pointer,
                host.nbytes,
                cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost,
                self.stream,
            )
        )
        check(cudart.cudaLaunchHostFunc(self.stream, ctypes.cast(self.callback, ctypes.c_void_p).value, 0))
        self.done.get()
        check(cudart.cudaFree(device_pointer))
        return host
