import ctypes
from typing import List, Optional

import numpy as np
import tensorrt as trt
from cuda import cudart


def cuda_call(call):
    err, res = call[0], call[1:]
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error: {err}")
    return res[0] if len(res) == 1 else res


class HostDeviceMem:
    """Pair of page-locked host memory and device memory."""

    def __init__(self, size: int, dtype: np.dtype):
        self.nbytes = size * np.dtype(dtype).itemsize
        host = cuda_call(cudart.cudaMallocHost(self.nbytes))
        pointer = ctypes.POINTER(np.ctypeslib.as_ctypes_type(np.dtype(dtype)))
        self.host = np.ctypeslib.as_array(ctypes.cast(host, pointer), (size,))
        self.device = cuda_call(cudart.cudaMalloc(self.nbytes))

    def free(self) -> None:
        cuda_call(cudart.cudaFree(self.device))
        cuda_call(cudart.cudaFreeHost(self.host.ctypes.data))


class Slot:
    def __init__(self, engine: trt.ICudaEngine):
        self.context = engine.create_execution_context()
        self.stream = cuda_call(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.inputs, self.outputs = [], []
        self.tag: Optional[int] = None
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            size = trt.volume(engine.get_tensor_shape(name))
            mem = HostDeviceMem(size, trt.nptype(engine.get_tensor_dtype(name)))
            self.context.set_tensor_address(name, int(mem.device))
            is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
            (self.inputs if is_input else self.outputs).append(mem)

    def launch(self, tag: int, data: np.ndarray) -> None:
        np.copyto(self.inputs[0].host, data.ravel())
        h2d = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        d2h = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        for mem in self.inputs:
            cuda_call(cudart.cudaMemcpyAsync(mem.device, mem.host.ctypes.data, mem.nbytes, h2d, self.stream))
        self.context.execute_async_v3(stream_handle=int(self.stream))
        for mem in self.outputs:
            cuda_call(cudart.cudaMemcpyAsync(mem.host.ctypes.data, mem.device, mem.nbytes, d2h, self.stream))
        self.tag = tag

    def collect(self) -> Optional[List[np.ndarray]]:
        if self.tag is None:
            return None
        cuda_call(cudart.cudaStreamSynchronize(self.stream))
        self.tag = None
        return [mem.host.copy() for mem in self.outputs]

    def close(self) -> None:
        cuda_call(cudart.cudaStreamSynchronize(self.stream))
        for mem in self.inputs + self.outputs:
            mem.free()
        cuda_call(cudart.cudaStreamDestroy(self.stream))


class MultiStreamRunner:
    def __init__(self, engine_path: str, num_slots: int = 3):
        with open(engine_path, "rb") as f, trt.Runtime(trt.Logger(trt.Logger.ERROR)) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.slots = [Slot(self.engine) for _ in range(num_slots)]

    def run(self, batches: List[np.ndarray]) -> List[List[np.ndarray]]:
        results: List[Optional[List[np.ndarray]]] = [None] * len(batches)
        for i, data in enumerate(batches):
            slot = self.slots[i % len(self.slots)]
            tag = slot.tag
            done = slot.collect()
            if done is not None:
                results[tag] = done
            slot.launch(i, data)
        for slot in self.slots:
            tag = slot.tag
            done = slot.collect()
            if done is not None:
                results[tag] = done
            slot.close()
        return results
