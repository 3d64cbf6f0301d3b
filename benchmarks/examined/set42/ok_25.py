"""TensorRT runner with plain cudaMemcpy around an asynchronous enqueue."""
import ctypes
import sys

import numpy as np
import tensorrt as trt
from cuda import cudart


def check(result):
    err, *values = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorName(err)[1].decode())
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


def pinned_array(shape, dtype):
    dtype = np.dtype(dtype)
    nbytes = int(np.prod(shape)) * dtype.itemsize
    ptr = check(cudart.cudaHostAlloc(nbytes, cudart.cudaHostAllocDefault))
    raw = (ctypes.c_uint8 * nbytes).from_address(int(ptr))
    return np.frombuffer(raw, dtype=dtype).reshape(shape)


class Tensor:
    def __init__(self, name, shape, dtype):
        self.name = name
        self.host = pinned_array(shape, dtype)
        self.device = check(cudart.cudaMalloc(self.host.nbytes))

    def to_device(self):
        check(
            cudart.cudaMemcpy(
                self.device,
                self.host.ctypes.data,
                self.host.nbytes,
                cudart.cudaMemcpyKind.cudaMemcpyHostToDevice,
            )
        )

    def to_host(self):
        check(
            cudart.cudaMemcpy(
                self.host.ctypes.data,
                self.device,
                self.host.nbytes,
                cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost,
            )
        )
        return self.host


class Runner:
    def __init__(self, path):
        logger = trt.Logger(trt.Logger.ERROR)
        with open(path, "rb") as f:
            self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = check(cudart.cudaStreamCreate())
        self.tensors = {}
        self.input_names, self.output_names = [], []
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            t = Tensor(
                name,
                tuple(self.engine.get_tensor_shape(name)),
                trt.nptype(self.engine.get_tensor_dtype(name)),
            )
            self.tensors[name] = t
            self.context.set_tensor_address(name, int(t.device))
            mode = self.engine.get_tensor_mode(name)
            names = self.input_names if mode == trt.TensorIOMode.INPUT else self.output_names
            names.append(name)

    def __call__(self, *arrays):
        for name, array in zip(self.input_names, arrays):
            self.tensors[name].host[...] = array
            self.tensors[name].to_device()
        if not self.context.execute_async_v3(self.stream):
            raise RuntimeError("enqueue failed")
        return [self.tensors[name].to_host().copy() for name in self.output_names]


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else "classifier.engine"
    runner = Runner(path)
    shape = runner.tensors[runner.input_names[0]].host.shape
    rng = np.random.default_rng(0)
    top = []
    for _ in range(100):
        (scores, *_rest) = runner(rng.standard_normal(shape, dtype=np.float32))
        top.append(int(scores.reshape(-1).argmax()))
    print(np.bincount(top).argmax())


if __name__ == "__main__":
    main()
