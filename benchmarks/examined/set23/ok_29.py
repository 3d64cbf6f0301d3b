"""Per-frame transient host buffers that rotate on GPU completion."""
import ctypes
from collections import deque

import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return rest[0] if len(rest) == 1 else tuple(rest)


class TransientBuffer:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.ptr = check(cudart.cudaHostAlloc(nbytes, cudart.cudaHostAllocDefault))
        raw = (ctypes.c_uint8 * nbytes).from_address(int(self.ptr))
        self.view = np.ctypeslib.as_array(raw)
        self.event = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))


class TransientPool:
    def __init__(self, nbytes):
        self.nbytes = nbytes
        self.in_flight = deque()
        self.idle = []

    def acquire(self):
        while self.in_flight:
            (err,) = cudart.cudaEventQuery(self.in_flight[0].event)
            if err == cudart.cudaError_t.cudaErrorNotReady:
                break
            check((err,))
            self.idle.append(self.in_flight.popleft())
        if self.idle:
            return self.idle.pop()
        return TransientBuffer(self.nbytes)

    def submit(self, buffer, stream):
        check(cudart.cudaEventRecord(buffer.event, stream))
        self.in_flight.append(buffer)

    def close(self):
        while self.in_flight:
            buffer = self.in_flight.popleft()
            check(cudart.cudaEventSynchronize(buffer.event))
            self.idle.append(buffer)
        for buffer in self.idle:
            check(cudart.cudaFreeHost(buffer.ptr))


class Renderer:
    def __init__(self, instances):
        self.nbytes = instances * 64
        self.pool = TransientPool(self.nbytes)
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.uniforms = check(cudart.cudaMalloc(self.nbytes))

    def draw(self, matrices, record_commands):
        buffer = self.pool.acquire()
        buffer.view[:] = matrices.view(np.uint8).ravel()
        check(
            cudart.cudaMemcpyAsync(
                self.uniforms, buffer.ptr, self.nbytes,
                cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, self.stream,
            )
        )
        self.pool.submit(buffer, self.stream)
        record_commands(self.stream, self.uniforms)

    def finish(self):
        check(cudart.cudaStreamSynchronize(self.stream))
        self.pool.close()
        check(cudart.cudaFree(self.uniforms))
