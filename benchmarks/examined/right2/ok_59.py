"""TensorRT with two IO sets and a separate download stream."""
import ctypes
from collections import deque

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart

KIND = cudart.cudaMemcpyKind


def cuda_call(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return values[0] if values else None


def pinned(shape, dtype):
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    ptr = cuda_call(cudart.cudaMallocHost(nbytes))
    raw = (ctypes.c_uint8 * nbytes).from_address(ptr)
    return np.frombuffer(raw, dtype=dtype).reshape(shape)


class IOSet:
    def __init__(self, in_shape, out_shape, dtype=np.float32):
        self.host_in = pinned(in_shape, dtype)
        self.host_out = pinned(out_shape, dtype)
        self.dev_in = cuda_call(cudart.cudaMalloc(self.host_in.nbytes))
        self.dev_out = cuda_call(cudart.cudaMalloc(self.host_out.nbytes))
        self.computed = cuda_call(cudart.cudaEventCreate())
        self.fetched = cuda_call(cudart.cudaEventCreate())


class Detector:
    def __init__(self, plan, in_name, out_name):
        self.runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
        self.engine = self.runtime.deserialize_cuda_engine(plan)
        self.context = self.engine.create_execution_context()
        self.in_name, self.out_name = in_name, out_name
        shapes = [tuple(self.engine.get_tensor_shape(n)) for n in (in_name, out_name)]
        flags = cudart.cudaStreamNonBlocking
        self.compute = cuda_call(cudart.cudaStreamCreateWithFlags(flags))
        self.download = cuda_call(cudart.cudaStreamCreateWithFlags(flags))
        self.idle = deque(IOSet(*shapes) for _ in range(2))
        self.inflight = deque()

    def _start(self, frame):
        io = self.idle.popleft()
        np.copyto(io.host_in, frame)
        cuda_call(cudart.cudaStreamWaitEvent(self.compute, io.fetched, 0))
        cuda_call(cudart.cudaMemcpyAsync(
            io.dev_in, io.host_in.ctypes.data, io.host_in.nbytes,
            KIND.cudaMemcpyHostToDevice, self.compute))
        self.context.set_tensor_address(self.in_name, io.dev_in)
        self.context.set_tensor_address(self.out_name, io.dev_out)
        if not self.context.execute_async_v3(int(self.compute)):
            raise RuntimeError("execute_async_v3 failed")
        cuda_call(cudart.cudaEventRecord(io.computed, self.compute))
        cuda_call(cudart.cudaStreamWaitEvent(self.download, io.computed, 0))
        cuda_call(cudart.cudaMemcpyAsync(
            io.host_out.ctypes.data, io.dev_out, io.host_out.nbytes,
            KIND.cudaMemcpyDeviceToHost, self.download))
        cuda_call(cudart.cudaEventRecord(io.fetched, self.download))
        self.inflight.append(io)

    def _finish(self):
        io = self.inflight.popleft()
        cuda_call(cudart.cudaEventSynchronize(io.fetched))
        boxes = io.host_out.copy()
        self.idle.append(io)
        return boxes

    def stream(self, frames):
        for frame in frames:
            if not self.idle:
                yield self._finish()
            self._start(frame)
        while self.inflight:
            yield self._finish()


if __name__ == "__main__":
    with open("detector.plan", "rb") as f:
        detector = Detector(f.read(), "images", "boxes")
    shape = detector.engine.get_tensor_shape("images")
    feed = (np.random.rand(*shape).astype(np.float32) for _ in range(32))
    print(sum(b.size for b in detector.stream(feed)))
