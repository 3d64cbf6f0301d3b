"""TensorRT runner on the cuda.bindings runtime API with page-locked I/O."""
import ctypes

import numpy as np
import tensorrt as trt
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1].decode())
    return rest[0] if len(rest) == 1 else tuple(rest)


H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


class HostDeviceMem:
    def __init__(self, shape, dtype):
        self.nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        self._host_ptr = check(cudart.cudaMallocHost(self.nbytes))
        raw = (ctypes.c_byte * self.nbytes).from_address(self._host_ptr)
        self.host = np.frombuffer(raw, dtype=dtype).reshape(shape)
        self.device = check(cudart.cudaMalloc(self.nbytes))

    def free(self):
        check(cudart.cudaFree(self.device))
        check(cudart.cudaFreeHost(self._host_ptr))


class Runner:
    def __init__(self, plan_path):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(plan_path, "rb") as f, trt.Runtime(logger) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.done = check(cudart.cudaEventCreateWithFlags(cudart.cudaEventDisableTiming))
        self.inputs, self.outputs = {}, {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            shape = tuple(self.engine.get_tensor_shape(name))
            mem = HostDeviceMem(shape, trt.nptype(self.engine.get_tensor_dtype(name)))
            self.context.set_tensor_address(name, mem.device)
            mode = self.engine.get_tensor_mode(name)
            bucket = self.inputs if mode == trt.TensorIOMode.INPUT else self.outputs
            bucket[name] = mem

    def submit(self, feeds):
        for name, mem in self.inputs.items():
            np.copyto(mem.host, feeds[name])
            check(cudart.cudaMemcpyAsync(
                mem.device, mem.host.ctypes.data, mem.nbytes, H2D, self.stream))
        self.context.execute_async_v3(stream_handle=int(self.stream))
        for mem in self.outputs.values():
            check(cudart.cudaMemcpyAsync(
                mem.host.ctypes.data, mem.device, mem.nbytes, D2H, self.stream))
        check(cudart.cudaEventRecord(self.done, self.stream))

    def collect(self):
        check(cudart.cudaEventSynchronize(self.done))
        return {name: mem.host.copy() for name, mem in self.outputs.items()}

    def close(self):
        check(cudart.cudaStreamSynchronize(self.stream))
        for mem in [*self.inputs.values(), *self.outputs.values()]:
            mem.free()
        check(cudart.cudaEventDestroy(self.done))
        check(cudart.cudaStreamDestroy(self.stream))


def main(path="model.plan", batches=16):
    runner = Runner(path)
    rng = np.random.default_rng(0)
    for k in range(batches):
        runner.submit({
            n: rng.random(m.host.shape).astype(m.host.dtype) for n, m in runner.inputs.items()
        })
        result = runner.collect()
        print(k, {n: float(v.mean()) for n, v in result.items()})
    runner.close()


if __name__ == "__main__":
    main()
