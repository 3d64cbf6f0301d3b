"""TensorRT runner with separate upload, execution and download streams and
a ring of binding sets."""
import collections

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart
import ctypes


def cuda(ret):
    err, *vals = ret
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1].decode())
    return vals[0] if len(vals) == 1 else vals


def pinned(shape, dtype):
    dtype = np.dtype(dtype)
    n = int(np.prod(shape))
    ptr = cuda(cudart.cudaMallocHost(n * dtype.itemsize))
    raw = (ctypes.c_byte * (n * dtype.itemsize)).from_address(int(ptr))
    return np.frombuffer(raw, dtype=dtype).reshape(shape)


class BindingSet:
    def __init__(self, in_shape, out_shape):
        self.h_in = pinned(in_shape, np.float32)
        self.h_out = pinned(out_shape, np.float32)
        self.d_in = cuda(cudart.cudaMalloc(self.h_in.nbytes))
        self.d_out = cuda(cudart.cudaMalloc(self.h_out.nbytes))
        self.uploaded = cuda(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.executed = cuda(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.downloaded = cuda(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))


class PlanRunner:
    def __init__(self, engine, depth=3):
        self.context = engine.create_execution_context()
        ins = tuple(engine.get_tensor_shape("input"))
        outs = tuple(engine.get_tensor_shape("output"))
        nb = cudart.cudaStreamNonBlocking
        self.s_up = cuda(cudart.cudaStreamCreateWithFlags(nb))
        self.s_run = cuda(cudart.cudaStreamCreateWithFlags(nb))
        self.s_down = cuda(cudart.cudaStreamCreateWithFlags(nb))
        self.free = collections.deque(BindingSet(ins, outs) for _ in range(depth))
        self.busy = collections.deque()

    def _retire(self):
        b, callback = self.busy.popleft()
        cuda(cudart.cudaEventSynchronize(b.downloaded))
        callback(b.h_out.copy())
        self.free.append(b)

    def submit(self, batch, callback):
        if not self.free:
            self._retire()
        b = self.free.popleft()
        b.h_in[...] = batch
        h2d = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        d2h = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        cuda(cudart.cudaMemcpyAsync(b.d_in, b.h_in.ctypes.data, b.h_in.nbytes, h2d, self.s_up))
        cuda(cudart.cudaEventRecord(b.uploaded, self.s_up))
        cuda(cudart.cudaStreamWaitEvent(self.s_run, b.uploaded, 0))
        self.context.set_tensor_address("input", int(b.d_in))
        self.context.set_tensor_address("output", int(b.d_out))
        if not self.context.execute_async_v3(int(self.s_run)):
            raise RuntimeError("enqueue failed")
        cuda(cudart.cudaEventRecord(b.executed, self.s_run))
        cuda(cudart.cudaStreamWaitEvent(self.s_down, b.executed, 0))
        cuda(cudart.cudaMemcpyAsync(b.h_out.ctypes.data, b.d_out, b.h_out.nbytes, d2h, self.s_down))
        cuda(cudart.cudaEventRecord(b.downloaded, self.s_down))
        self.busy.append((b, callback))

    def flush(self):
        while self.busy:
            self._retire()


if __name__ == "__main__":
    with open("model.plan", "rb") as f:
        engine = trt.Runtime(trt.Logger()).deserialize_cuda_engine(f.read())
    runner = PlanRunner(engine)
    results = []
    shape = tuple(engine.get_tensor_shape("input"))
    for i in range(32):
        runner.submit(np.full(shape, i, dtype=np.float32), results.append)
    runner.flush()
    print(len(results), results[-1].ravel()[:3])
