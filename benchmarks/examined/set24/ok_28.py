"""TensorRT engine with several requests under way."""
import ctypes
from collections import deque

import numpy as np
import tensorrt as trt
from cuda import cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


def cuda_call(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(str(err))
    return rest[0] if rest else None


class Binding:
    def __init__(self, name, shape, dtype):
        self.name, self.shape, self.dtype = name, shape, np.dtype(dtype)
        self.nbytes = int(np.prod(shape)) * self.dtype.itemsize
        self.device = cuda_call(cudart.cudaMalloc(self.nbytes))
        ptr = cuda_call(cudart.cudaMallocHost(self.nbytes))
        raw = (ctypes.c_uint8 * self.nbytes).from_address(ptr)
        self.host = np.frombuffer(raw, dtype=self.dtype).reshape(shape)


class Slot:
    def __init__(self, engine):
        self.context = engine.create_execution_context()
        self.stream = cuda_call(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.inputs, self.outputs = [], []
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            b = Binding(name, tuple(engine.get_tensor_shape(name)), trt.nptype(engine.get_tensor_dtype(name)))
            is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
            (self.inputs if is_input else self.outputs).append(b)
            self.context.set_tensor_address(name, b.device)

    def submit(self, arrays):
        for b, a in zip(self.inputs, arrays):
            np.copyto(b.host, a)
            cuda_call(cudart.cudaMemcpyAsync(b.device, b.host.ctypes.data, b.nbytes, H2D, self.stream))
        self.context.execute_async_v3(int(self.stream))
        for b in self.outputs:
            cuda_call(cudart.cudaMemcpyAsync(b.host.ctypes.data, b.device, b.nbytes, D2H, self.stream))

    def result(self):
        cuda_call(cudart.cudaStreamSynchronize(self.stream))
        return [b.host.copy() for b in self.outputs]


class ParallelEngine:
    def __init__(self, path, n_slots=3):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(path, "rb") as f, trt.Runtime(logger) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.free = deque(Slot(self.engine) for _ in range(n_slots))
        self.busy = deque()

    def run(self, requests):
        for arrays in requests:
            if not self.free:
                slot = self.busy.popleft()
                yield slot.result()
                self.free.append(slot)
            slot = self.free.popleft()
            slot.submit(arrays)
            self.busy.append(slot)
        while self.busy:
            slot = self.busy.popleft()
            yield slot.result()
            self.free.append(slot)


def main():
    net = ParallelEngine("detector.engine")
    frames = ([np.full((1, 3, 640, 640), i, dtype=np.float32)] for i in range(64))
    for outputs in net.run(frames):
        print(outputs[0].shape)


if __name__ == "__main__":
    main()
