"""TensorRT runner that refills the network input while later layers still run."""
import ctypes

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart


def check(ret):
    err, *rest = ret
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1])
    return rest[0] if len(rest) == 1 else tuple(rest)


def event():
    return check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))


class PinnedArray:
    def __init__(self, shape, dtype):
        dtype = np.dtype(dtype)
        self.nbytes = int(np.prod(shape)) * dtype.itemsize
        self.ptr = check(cudart.cudaMallocHost(self.nbytes))
        raw = (ctypes.c_uint8 * self.nbytes).from_address(int(self.ptr))
        self.array = np.ctypeslib.as_array(raw).view(dtype).reshape(shape)
        self.event = event()
        self.used = False


class StreamingRunner:
    def __init__(self, engine, in_name, out_name, depth=2):
        self.context = engine.create_execution_context()
        in_shape = tuple(engine.get_tensor_shape(in_name))
        out_shape = tuple(engine.get_tensor_shape(out_name))
        in_type = trt.nptype(engine.get_tensor_dtype(in_name))
        out_type = trt.nptype(engine.get_tensor_dtype(out_name))
        self.uploads = [PinnedArray(in_shape, in_type) for _ in range(depth)]
        self.results = [PinnedArray(out_shape, out_type) for _ in range(depth)]
        self.d_in = check(cudart.cudaMalloc(self.uploads[0].nbytes))
        self.d_out = check(cudart.cudaMalloc(self.results[0].nbytes))
        self.context.set_tensor_address(in_name, int(self.d_in))
        self.context.set_tensor_address(out_name, int(self.d_out))
        flags = cudart.cudaStreamNonBlocking
        self.copy = check(cudart.cudaStreamCreateWithFlags(flags))
        self.infer = check(cudart.cudaStreamCreateWithFlags(flags))
        self.arrived = event()
        self.consumed = event()
        self.context.set_input_consumed_event(int(self.consumed))
        self.count = 0

    def _take(self, result):
        if not result.used:
            return None
        check(cudart.cudaEventSynchronize(result.event))
        result.used = False
        return result.array.copy()

    def submit(self, batch):
        upload = self.uploads[self.count % len(self.uploads)]
        result = self.results[self.count % len(self.results)]
        self.count += 1
        previous = self._take(result)
        if upload.used:
            check(cudart.cudaEventSynchronize(upload.event))
        np.copyto(upload.array, batch)
        check(cudart.cudaStreamWaitEvent(self.copy, self.consumed, 0))
        check(cudart.cudaMemcpyAsync(
            self.d_in, upload.ptr, upload.nbytes,
            cudart.cudaMemcpyKind.cudaMemcpyHostToDevice, self.copy))
        check(cudart.cudaEventRecord(upload.event, self.copy))
        upload.used = True
        check(cudart.cudaEventRecord(self.arrived, self.copy))
        check(cudart.cudaStreamWaitEvent(self.infer, self.arrived, 0))
        if not self.context.execute_async_v3(int(self.infer)):
            raise RuntimeError("enqueue failed")
        check(cudart.cudaMemcpyAsync(
            result.ptr, self.d_out, result.nbytes,
            cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost, self.infer))
        check(cudart.cudaEventRecord(result.event, self.infer))
        result.used = True
        return previous

    def drain(self):
        order = range(self.count, self.count + len(self.results))
        outs = [self._take(self.results[i % len(self.results)]) for i in order]
        return [o for o in outs if o is not None]


def run_engine(path, in_name, out_name, batches):
    runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
    with open(path, "rb") as f:
        engine = runtime.deserialize_cuda_engine(f.read())
    runner = StreamingRunner(engine, in_name, out_name)
    outs = [runner.submit(b) for b in batches]
    return [o for o in outs if o is not None] + runner.drain()
