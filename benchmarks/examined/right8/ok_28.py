"""TensorRT runner over PyCUDA host/device pairs."""
from dataclasses import dataclass

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

LOGGER = trt.Logger(trt.Logger.WARNING)


@dataclass
class HostDeviceMem:
    name: str
    host: np.ndarray
    device: cuda.DeviceAllocation
    shape: tuple


class TrtModel:
    def __init__(self, path):
        with open(path, "rb") as f, trt.Runtime(LOGGER) as rt:
            self.engine = rt.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = cuda.Stream()
        self.inputs, self.outputs = {}, {}
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            shape = tuple(self.engine.get_tensor_shape(name))
            dtype = trt.nptype(self.engine.get_tensor_dtype(name))
            host = cuda.pagelocked_empty(trt.volume(shape), dtype)
            mem = HostDeviceMem(name, host, cuda.mem_alloc(host.nbytes), shape)
            self.context.set_tensor_address(name, int(mem.device))
            is_input = self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
            (self.inputs if is_input else self.outputs)[name] = mem

    def _enqueue(self, feed):
        for name, value in feed.items():
            mem = self.inputs[name]
            np.copyto(mem.host, np.asarray(value).ravel())
            cuda.memcpy_htod_async(mem.device, mem.host, self.stream)
        if not self.context.execute_async_v3(self.stream.handle):
            raise RuntimeError("enqueue failed")
        for mem in self.outputs.values():
            cuda.memcpy_dtoh_async(mem.host, mem.device, self.stream)

    def infer(self, feed):
        try:
            self._enqueue(feed)
        finally:
            self.stream.synchronize()
        return {n: m.host.reshape(m.shape).copy() for n, m in self.outputs.items()}


def classify(path, images):
    model = TrtModel(path)
    (name, mem), = model.inputs.items()
    for image in images:
        logits = next(iter(model.infer({name: image.reshape(mem.shape)}).values()))
        yield int(logits.argmax())


if __name__ == "__main__":
    batch = (np.random.rand(1, 3, 224, 224).astype(np.float32) for _ in range(4))
    print(list(classify("resnet50.engine", batch)))
