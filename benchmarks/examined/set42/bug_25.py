"""TensorRT session on cuda-python with optional result fetching."""
import ctypes
from typing import Dict, Optional

import numpy as np
import tensorrt as trt
from cuda import cudart

LOGGER = trt.Logger(trt.Logger.WARNING)


def cuda_call(call):
    err, res = call[0], call[1:]
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA runtime error: {err}")
    return res[0] if len(res) == 1 else res


class HostDeviceMem:
    def __init__(self, shape, dtype):
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.nbytes = int(np.prod(shape)) * self.dtype.itemsize
        ptr = cuda_call(cudart.cudaMallocHost(self.nbytes))
        ctype = ctypes.POINTER(np.ctypeslib.as_ctypes_type(self.dtype))
        self.host = np.ctypeslib.as_array(ctypes.cast(ptr, ctype), self.shape)
        self.device = cuda_call(cudart.cudaMalloc(self.nbytes))

    def free(self):
        cuda_call(cudart.cudaFree(self.device))
        cuda_call(cudart.cudaFreeHost(self.host.ctypes.data))


class Session:
    def __init__(self, engine_path: str):
        with open(engine_path, "rb") as f, trt.Runtime(LOGGER) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = cuda_call(cudart.cudaStreamCreate())
        self.inputs: Dict[str, HostDeviceMem] = {}
        self.outputs: Dict[str, HostDeviceMem] = {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            mem = HostDeviceMem(
                self.engine.get_tensor_shape(name),
                trt.nptype(self.engine.get_tensor_dtype(name)),
            )
            is_input = self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
            (self.inputs if is_input else self.outputs)[name] = mem
            self.context.set_tensor_address(name, int(mem.device))

    def execute(self, feeds: Dict[str, np.ndarray], fetch: bool = True) -> Optional[Dict]:
        h2d = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        d2h = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        for name, value in feeds.items():
            mem = self.inputs[name]
            np.copyto(mem.host, value)
            cuda_call(
                cudart.cudaMemcpyAsync(
                    mem.device, mem.host.ctypes.data, mem.nbytes, h2d, self.stream
                )
            )
        self.context.execute_async_v3(stream_handle=self.stream)
        if not fetch:
            return None
        for mem in self.outputs.values():
            cuda_call(
                cudart.cudaMemcpyAsync(
                    mem.host.ctypes.data, mem.device, mem.nbytes, d2h, self.stream
                )
            )
        cuda_call(cudart.cudaStreamSynchronize(self.stream))
        return {name: mem.host.copy() for name, mem in self.outputs.items()}

    def close(self):
        cuda_call(cudart.cudaStreamSynchronize(self.stream))
        for mem in [*self.inputs.values(), *self.outputs.values()]:
            mem.free()
        cuda_call(cudart.cudaStreamDestroy(self.stream))


def main(engine_path: str = "tracker.engine", frames: int = 300, stride: int = 5):
    """The engine keeps recurrent state, results are needed every few frames."""
    session = Session(engine_path)
    name, mem = next(iter(session.inputs.items()))
    rng = np.random.default_rng(0)
    tracks = []
    for i in range(frames):
        frame = rng.random(mem.shape).astype(mem.dtype)
        out = session.execute({name: frame}, fetch=(i % stride == stride - 1))
        if out is not None:
            tracks.append({k: float(v.mean()) for k, v in out.items()})
    session.close()
    print(tracks[-1])


if __name__ == "__main__":
    main()
