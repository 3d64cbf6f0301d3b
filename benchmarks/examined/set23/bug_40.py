"""Thread-safe wrapper around one TensorRT execution context."""
import ctypes
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def cuda_call(call):
    err, *res = call
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return res[0] if len(res) == 1 else res


def pinned(shape, dtype=np.float32):
    n = int(np.prod(shape))
    ptr = cuda_call(cudart.cudaMallocHost(n * np.dtype(dtype).itemsize))
    raw = (ctypes.c_float * n).from_address(int(ptr))
    return np.ctypeslib.as_array(raw).reshape(shape)


class PerThread(threading.local):
    """Stream and host buffers of the calling thread."""

    def __init__(self, in_shape, out_shape):
        self.stream = cuda_call(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.host_in = pinned(in_shape)
        self.host_out = pinned(out_shape)


class TensorrtExecutionProvider:
    def __init__(self, engine, in_name, out_name):
        self.context = engine.create_execution_context()
        self.in_shape = tuple(engine.get_tensor_shape(in_name))
        self.out_shape = tuple(engine.get_tensor_shape(out_name))
        self.in_bytes = 4 * int(np.prod(self.in_shape))
        self.out_bytes = 4 * int(np.prod(self.out_shape))
        self.dev_in = cuda_call(cudart.cudaMalloc(self.in_bytes))
        self.dev_out = cuda_call(cudart.cudaMalloc(self.out_bytes))
        self.context.set_tensor_address(in_name, self.dev_in)
        self.context.set_tensor_address(out_name, self.dev_out)
        self.mutex = threading.Lock()
        self.local = PerThread(self.in_shape, self.out_shape)

    def compute(self, feeds):
        tls = self.local
        np.copyto(tls.host_in, feeds)
        with self.mutex:
            cuda_call(
                cudart.cudaMemcpyAsync(
                    self.dev_in, tls.host_in.ctypes.data, self.in_bytes, H2D, tls.stream
                )
            )
            if not self.context.execute_async_v3(stream_handle=tls.stream):
                raise RuntimeError("enqueue failed")
            cuda_call(
                cudart.cudaMemcpyAsync(
                    tls.host_out.ctypes.data, self.dev_out, self.out_bytes, D2H, tls.stream
                )
            )
        cuda_call(cudart.cudaStreamSynchronize(tls.stream))
        return tls.host_out.copy()


def run_concurrently(engine_path, batches, workers=4):
    runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
    with open(engine_path, "rb") as f:
        engine = runtime.deserialize_cuda_engine(f.read())
    provider = TensorrtExecutionProvider(engine, "input", "output")
    with ThreadPoolExecutor(max_workers=workers) as pool:
        return list(pool.map(provider.compute, batches))
