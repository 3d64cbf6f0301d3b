"""HTTP-style front end: worker threads share one TensorRT model object."""
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pycuda.driver as cuda
import tensorrt as trt


class TrtYolo:
    def __init__(self, engine_path):
        cuda.init()
        self.cfx = cuda.Device(0).make_context()
        self.stream = cuda.Stream()
        with open(engine_path, "rb") as f:
            self.engine = trt.Runtime(trt.Logger(trt.Logger.WARNING)).deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.host_inputs, self.cuda_inputs = [], []
        self.host_outputs, self.cuda_outputs = [], []
        for i in range(self.engine.num_io_tensors):
            name = self.engine.get_tensor_name(i)
            size = trt.volume(self.engine.get_tensor_shape(name))
            host = cuda.pagelocked_empty(size, trt.nptype(self.engine.get_tensor_dtype(name)))
            device = cuda.mem_alloc(host.nbytes)
            self.context.set_tensor_address(name, int(device))
            if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                self.host_inputs.append(host)
                self.cuda_inputs.append(device)
            else:
                self.host_outputs.append(host)
                self.cuda_outputs.append(device)
        self.cfx.pop()

    def infer(self, image):
        self.cfx.push()
        np.copyto(self.host_inputs[0], image.ravel())
        cuda.memcpy_htod_async(self.cuda_inputs[0], self.host_inputs[0], self.stream)
        self.context.execute_async_v3(self.stream.handle)
        cuda.memcpy_dtoh_async(self.host_outputs[0], self.cuda_outputs[0], self.stream)
        self.stream.synchronize()
        self.cfx.pop()
        return self.host_outputs[0].copy()

    def destroy(self):
        self.cfx.pop()


def preprocess(image, size=640):
    h, w, _ = image.shape
    scale = size / max(h, w)
    ys = (np.arange(int(h * scale)) / scale).astype(int)
    xs = (np.arange(int(w * scale)) / scale).astype(int)
    canvas = np.full((size, size, 3), 114, dtype=np.float32)
    canvas[: len(ys), : len(xs)] = image[ys][:, xs]
    return np.ascontiguousarray(canvas.transpose(2, 0, 1) / 255.0, dtype=np.float32)


def postprocess(output, threshold=0.5):
    boxes = output.reshape(-1, 38)
    return boxes[boxes[:, 4] > threshold][:, :6]


class DetectionService:
    def __init__(self, engine_path, workers=4):
        self.model = TrtYolo(engine_path)
        self.pool = ThreadPoolExecutor(max_workers=workers)
        self.served = 0
        self.served_lock = threading.Lock()

    def _handle(self, image):
        output = self.model.infer(preprocess(image))
        with self.served_lock:
            self.served += 1
        return postprocess(output)

    def detect(self, images):
        return [f.result() for f in [self.pool.submit(self._handle, im) for im in images]]


if __name__ == "__main__":
    service = DetectionService("yolov5s.engine")
    frames = [np.random.randint(0, 255, (720, 1280, 3), dtype=np.uint8) for _ in range(64)]
    for result in service.detect(frames):
        print(len(result))
