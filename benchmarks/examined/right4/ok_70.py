import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart


def call(fn, *args):
    err, *out = fn(*args)
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"{fn.__name__}: {err}")
    return out[0] if out else None


class HostDevice:
    def __init__(self, shape, dtype):
        self.shape, self.dtype = shape, np.dtype(dtype)
        self.nbytes = int(np.prod(shape)) * self.dtype.itemsize
        self.host_ptr = call(cudart.cudaMallocHost, self.nbytes)
        raw = (ctypes.c_byte * self.nbytes).from_address(int(self.host_ptr))
        self.host = np.frombuffer(raw, dtype=self.dtype).reshape(shape)
        self.device = call(cudart.cudaMalloc, self.nbytes)

    def free(self):
        call(cudart.cudaFree, self.device)
        call(cudart.cudaFreeHost, self.host_ptr)


class Runner:
    def __init__(self, engine):
        self.context = engine.create_execution_context()
        self.stream = call(cudart.cudaStreamCreate)
        self.inputs, self.outputs = {}, {}
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            buf = HostDevice(tuple(engine.get_tensor_shape(name)), trt.nptype(engine.get_tensor_dtype(name)))
            is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
            (self.inputs if is_input else self.outputs)[name] = buf
            self.context.set_tensor_address(name, int(buf.device))

    def __call__(self, feed):
        kind = cudart.cudaMemcpyKind
        for name, buf in self.inputs.items():
            buf.host[...] = feed[name]
            call(cudart.cudaMemcpyAsync, buf.device, buf.host_ptr, buf.nbytes,
                 kind.cudaMemcpyHostToDevice, self.stream)
        self.context.execute_async_v3(int(self.stream))
        for buf in self.outputs.values():
            call(cudart.cudaMemcpyAsync, buf.host_ptr, buf.device, buf.nbytes,
                 kind.cudaMemcpyDeviceToHost, self.stream)
        call(cudart.cudaStreamSynchronize, self.stream)
        return {name: buf.host.copy() for name, buf in self.outputs.items()}


class TrtServer:
    def __init__(self, plan, threads):
        self.runtime = trt.Runtime(trt.Logger(trt.Logger.ERROR))
        with open(plan, "rb") as f:
            self.engine = self.runtime.deserialize_cuda_engine(f.read())
        self.local = threading.local()
        self.lock = threading.Lock()
        self.pool = ThreadPoolExecutor(threads)

    def _infer(self, feed):
        if not hasattr(self.local, "runner"):
            with self.lock:
                self.local.runner = Runner(self.engine)
        return self.local.runner(feed)

    def map(self, feeds):
        return list(self.pool.map(self._infer, feeds))


def main(plan):
    server = TrtServer(plan, 3)
    shape = (1, 3, 224, 224)
    return server.map([{"images": np.random.rand(*shape).astype(np.float32)} for _ in range(100)])
