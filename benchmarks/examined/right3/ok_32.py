"""Minimal TensorRT runner over the CUDA runtime bindings."""
import ctypes

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart


def cuda_call(call):
    err, res = call[0], call[1:]
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(f"CUDA error {err}")
    return res[0] if len(res) == 1 else res


class HostDeviceMem:
    def __init__(self, name: str, shape: tuple, dtype: np.dtype):
        self.name, self.shape = name, shape
        size = trt.volume(shape)
        self.nbytes = size * dtype.itemsize
        raw = cuda_call(cudart.cudaMallocHost(self.nbytes))
        ptr = ctypes.cast(raw, ctypes.POINTER(np.ctypeslib.as_ctypes_type(dtype)))
        self.host = np.ctypeslib.as_array(ptr, (size,))
        self.host_ptr = raw
        self.device = cuda_call(cudart.cudaMalloc(self.nbytes))

    def free(self) -> None:
        cuda_call(cudart.cudaFree(self.device))
        cuda_call(cudart.cudaFreeHost(self.host_ptr))


class Runner:
    def __init__(self, plan: bytes):
        self.logger = trt.Logger(trt.Logger.ERROR)
        self.runtime = trt.Runtime(self.logger)
        self.engine = self.runtime.deserialize_cuda_engine(plan)
        self.context = self.engine.create_execution_context()
        self.stream = cuda_call(cudart.cudaStreamCreate())
        self.inputs: dict[str, HostDeviceMem] = {}
        self.outputs: dict[str, HostDeviceMem] = {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            dtype = np.dtype(trt.nptype(self.engine.get_tensor_dtype(name)))
            mem = HostDeviceMem(name, tuple(self.engine.get_tensor_shape(name)), dtype)
            is_input = self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
            (self.inputs if is_input else self.outputs)[name] = mem
            self.context.set_tensor_address(name, mem.device)

    def infer(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        kind = cudart.cudaMemcpyKind
        for name, value in feeds.items():
            np.copyto(self.inputs[name].host, value.ravel())
        for mem in self.inputs.values():
            cuda_call(cudart.cudaMemcpyAsync(
                mem.device, mem.host_ptr, mem.nbytes, kind.cudaMemcpyHostToDevice, self.stream))
        self.context.execute_async_v3(int(self.stream))
        for mem in self.outputs.values():
            cuda_call(cudart.cudaMemcpyAsync(
                mem.host_ptr, mem.device, mem.nbytes, kind.cudaMemcpyDeviceToHost, self.stream))
        cuda_call(cudart.cudaStreamSynchronize(self.stream))
        return {n: m.host.reshape(m.shape).copy() for n, m in self.outputs.items()}

    def close(self) -> None:
        for mem in (*self.inputs.values(), *self.outputs.values()):
            mem.free()
        cuda_call(cudart.cudaStreamDestroy(self.stream))


def main(path: str = "vae.plan"):
    with open(path, "rb") as f:
        runner = Runner(f.read())
    try:
        for seed in range(16):
            z = np.random.default_rng(seed).standard_normal((1, 4, 32, 48), dtype=np.float32)
            out = runner.infer({"z": z})
            print(seed, {k: v.shape for k, v in out.items()})
    finally:
        runner.close()


if __name__ == "__main__":
    main()
