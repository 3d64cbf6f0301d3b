"""Runs a TensorRT engine on several streams."""
import ctypes

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


class IoBuffers:
    def __init__(self, engine):
        self.device = {}
        self.host = {}
        self.inputs, self.outputs = [], []
        for i in range(engine.num_io_tensors):
            name = engine.get_tensor_name(i)
            dtype = np.dtype(trt.nptype(engine.get_tensor_dtype(name)))
            shape = tuple(engine.get_tensor_shape(name))
            nbytes = int(np.prod(shape)) * dtype.itemsize
            self.device[name] = cuda_call(cudart.cudaMalloc(nbytes))
            ptr = cuda_call(cudart.cudaMallocHost(nbytes))
            raw = (ctypes.c_uint8 * nbytes).from_address(ptr)
            self.host[name] = np.frombuffer(raw, dtype=dtype).reshape(shape)
            mode = engine.get_tensor_mode(name)
            (self.inputs if mode == trt.TensorIOMode.INPUT else self.outputs).append(name)


class MultiStreamRunner:
    def __init__(self, path, n_streams=3):
        logger = trt.Logger(trt.Logger.WARNING)
        with open(path, "rb") as f, trt.Runtime(logger) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.buffers = IoBuffers(self.engine)
        self.streams = [cuda_call(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
                        for _ in range(n_streams)]
        self.contexts = []
        for _ in range(n_streams):
            context = self.engine.create_execution_context()
            for name, ptr in self.buffers.device.items():
                context.set_tensor_address(name, ptr)
            self.contexts.append(context)

    def infer(self, images):
        buf = self.buffers
        for image, stream, context in zip(images, self.streams, self.contexts):
            for name in buf.inputs:
                np.copyto(buf.host[name], image)
                h = buf.host[name]
                cuda_call(cudart.cudaMemcpyAsync(buf.device[name], h.ctypes.data, h.nbytes, H2D, stream))
            context.execute_async_v3(int(stream))
            for name in buf.outputs:
                h = buf.host[name]
                cuda_call(cudart.cudaMemcpyAsync(h.ctypes.data, buf.device[name], h.nbytes, D2H, stream))
        for stream in self.streams:
            cuda_call(cudart.cudaStreamSynchronize(stream))
        return {name: buf.host[name].copy() for name in buf.outputs}


def main():
    runner = MultiStreamRunner("classifier.engine")
    for step in range(100):
        images = [np.random.rand(8, 3, 224, 224).astype(np.float32) for _ in range(3)]
        out = runner.infer(images)
        print(step, {k: v.argmax() for k, v in out.items()})


if __name__ == "__main__":
    main()
