"""Forest inference backend: executes a batch and answers each request from shared output buffers."""
import ctypes

import cupy as cp
import numpy as np
from cuda.bindings import runtime as cudart


def raft_check(result):
    err = result[0]
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1].decode())
    return result[1] if len(result) > 1 else None


class OutputBuffer:
    """Final destination of an output, registered by the server."""

    def __init__(self, max_rows):
        self.nbytes = 4 * max_rows
        self.ptr = int(raft_check(cudart.cudaMallocHost(self.nbytes)))
        raw = (ctypes.c_float * max_rows).from_address(self.ptr)
        self.view = np.ctypeslib.as_array(raw)


class TritonTensor:
    def __init__(self, buffer, finals, stream):
        self.buffer = buffer
        self.finals = finals
        self.stream = stream

    def sync(self):
        """Copy the contiguous batch into the output buffers of the requests."""
        offset = 0
        for final, rows in self.finals:
            raft_check(
                cudart.cudaMemcpyAsync(
                    final.ptr,
                    self.buffer.data.ptr + 4 * offset,
                    4 * rows,
                    cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost,
                    self.stream.ptr,
                )
            )
            offset += rows


class ForestBackend:
    def __init__(self, leaves, thresholds, max_batch=4096, max_requests=32):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.leaves = cp.asarray(leaves, dtype=cp.float32)
            self.thresholds = cp.asarray(thresholds, dtype=cp.float32)
        self.stream.synchronize()
        self.buffers = [OutputBuffer(max_batch) for _ in range(max_requests)]

    def predict(self, rows):
        bits = rows[:, : self.thresholds.size] > self.thresholds
        weights = (2 ** cp.arange(self.thresholds.size)).astype(cp.int32)
        return self.leaves[(bits * weights).sum(axis=1) % self.leaves.size]

    def execute(self, requests, send_response):
        rows = np.concatenate([r.features for r in requests])
        with self.stream:
            preds = self.predict(cp.asarray(rows, dtype=cp.float32))
        finals = [(b, len(r.features)) for b, r in zip(self.buffers, requests)]
        output = TritonTensor(preds, finals, self.stream)
        output.sync()
        for request, (final, n) in zip(requests, finals):
            send_response(request.id, final.view[:n].tobytes())
        self.stream.synchronize()
