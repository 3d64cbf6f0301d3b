"""TensorRT inference with one execution context and stream per lane."""
import ctypes

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart


def cuda_call(call):
    err, *res = call
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return res[0] if len(res) == 1 else res


class HostDeviceMem:
    def __init__(self, shape, dtype):
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.size = int(np.prod(shape))
        self.nbytes = self.size * self.dtype.itemsize
        host = cuda_call(cudart.cudaMallocHost(self.nbytes))
        ptype = ctypes.POINTER(np.ctypeslib.as_ctypes_type(self.dtype))
        self.host = np.ctypeslib.as_array(ctypes.cast(host, ptype), (self.size,))
        self.device = cuda_call(cudart.cudaMalloc(self.nbytes))


class Lane:
    def __init__(self, engine):
        self.context = engine.create_execution_context()
        self.stream = cuda_call(
            cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking)
        )
        self.inputs, self.outputs = [], []
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            mem = HostDeviceMem(
                tuple(engine.get_tensor_shape(name)), trt.nptype(engine.get_tensor_dtype(name))
            )
            self.context.set_tensor_address(name, mem.device)
            mode = engine.get_tensor_mode(name)
            target = self.inputs if mode == trt.TensorIOMode.INPUT else self.outputs
            target.append(mem)
        self.ticket = None

    def submit(self, ticket, arrays):
        h2d = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        d2h = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        for mem, array in zip(self.inputs, arrays):
            np.copyto(mem.host, array.ravel())
            cuda_call(
                cudart.cudaMemcpyAsync(mem.device, mem.host.ctypes.data, mem.nbytes, h2d, self.stream)
            )
        self.context.execute_async_v3(stream_handle=self.stream)
        for mem in self.outputs:
            cuda_call(
                cudart.cudaMemcpyAsync(mem.host.ctypes.data, mem.device, mem.nbytes, d2h, self.stream)
            )
        self.ticket = ticket

    def collect(self):
        cuda_call(cudart.cudaStreamSynchronize(self.stream))
        ticket, self.ticket = self.ticket, None
        return ticket, [m.host.reshape(m.shape).copy() for m in self.outputs]


def infer_all(engine_path, requests, lanes=3):
    runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
    with open(engine_path, "rb") as f:
        engine = runtime.deserialize_cuda_engine(f.read())
    pool = [Lane(engine) for _ in range(lanes)]
    results = {}
    for ticket, arrays in enumerate(requests):
        lane = pool[ticket % lanes]
        if lane.ticket is not None:
            done, outputs = lane.collect()
            results[done] = outputs
        lane.submit(ticket, arrays)
    for lane in pool:
        if lane.ticket is not None:
            done, outputs = lane.collect()
            results[done] = outputs
    return [results[k] for k in range(len(requests))]
