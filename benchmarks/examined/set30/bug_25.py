"""Thread-safe wrapper around one TensorRT execution context (PyCUDA buffers)."""
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pycuda.driver as cuda
import tensorrt as trt

cuda.init()


class Binding:
    def __init__(self, engine, name):
        self.name = name
        self.shape = tuple(engine.get_tensor_shape(name))
        dtype = trt.nptype(engine.get_tensor_dtype(name))
        self.host = cuda.pagelocked_empty(trt.volume(self.shape), dtype)
        self.device = cuda.mem_alloc(self.host.nbytes)


class MaskPredictor:
    def __init__(self, engine_path, device=0):
        self.cuda_ctx = cuda.Device(device).make_context()
        try:
            logger = trt.Logger(trt.Logger.WARNING)
            with open(engine_path, "rb") as f:
                self.engine = trt.Runtime(logger).deserialize_cuda_engine(f.read())
            self.context = self.engine.create_execution_context()
            self.stream = cuda.Stream()
            self.inputs, self.outputs = [], []
            for i in range(self.engine.num_io_tensors):
                name = self.engine.get_tensor_name(i)
                binding = Binding(self.engine, name)
                self.context.set_tensor_address(name, int(binding.device))
                mode = self.engine.get_tensor_mode(name)
                is_input = mode == trt.TensorIOMode.INPUT
                (self.inputs if is_input else self.outputs).append(binding)
        finally:
            self.cuda_ctx.pop()
        self.lock = threading.Lock()

    def _enqueue(self, image):
        src = self.inputs[0]
        np.copyto(src.host, np.ascontiguousarray(image).ravel())
        cuda.memcpy_htod_async(src.device, src.host, self.stream)
        self.context.execute_async_v3(self.stream.handle)
        for out in self.outputs:
            cuda.memcpy_dtoh_async(out.host, out.device, self.stream)
        finished = cuda.Event()
        finished.record(self.stream)
        return finished

    def infer(self, image):
        self.cuda_ctx.push()
        try:
            with self.lock:
                finished = self._enqueue(image)
            finished.synchronize()
            return [out.host.reshape(out.shape).copy() for out in self.outputs]
        finally:
            self.cuda_ctx.pop()

    def close(self):
        self.cuda_ctx.push()
        self.stream.synchronize()
        self.cuda_ctx.pop()
        self.cuda_ctx.detach()


def predict_all(engine_path, images, workers=4):
    predictor = MaskPredictor(engine_path)
    with ThreadPoolExecutor(workers) as pool:
        masks = list(pool.map(predictor.infer, images))
    predictor.close()
    return masks
