"""Asynchronous SSD demo: a child thread runs TensorRT, the main thread draws."""
import threading

import numpy as np
import pycuda.driver as cuda
import tensorrt as trt

TRT_LOGGER = trt.Logger(trt.Logger.INFO)


class TrtSSD:
    """Engine wrapper, lives in the thread that made the CUDA context."""

    def __init__(self, path: str, batch_shape):
        with open(path, "rb") as f, trt.Runtime(TRT_LOGGER) as runtime:
            self.engine = runtime.deserialize_cuda_engine(f.read())
        self.context = self.engine.create_execution_context()
        self.stream = cuda.Stream()
        self.bindings = []
        self.host_inputs, self.cuda_inputs = [], []
        self.host_outputs, self.cuda_outputs = [], []
        for name in self.engine:
            size = trt.volume(self.engine.get_tensor_shape(name))
            host = cuda.pagelocked_empty(size, np.float32)
            dev = cuda.mem_alloc(host.nbytes)
            self.bindings.append(int(dev))
            if self.engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT:
                self.host_inputs.append(host)
                self.cuda_inputs.append(dev)
            else:
                self.host_outputs.append(host)
                self.cuda_outputs.append(dev)

    def detect(self, image: np.ndarray):
        self.stream.synchronize()
        np.copyto(self.host_inputs[0], image.ravel())
        cuda.memcpy_htod_async(self.cuda_inputs[0], self.host_inputs[0], self.stream)
        self.context.execute_async_v2(self.bindings, self.stream.handle)
        for host, dev in zip(self.host_outputs, self.cuda_outputs):
            cuda.memcpy_dtoh_async(host, dev, self.stream)
        return self.host_outputs


class TrtThread(threading.Thread):
    def __init__(self, condition, camera, path: str, conf_th: float):
        super().__init__(daemon=True)
        self.condition = condition
        self.camera = camera
        self.path = path
        self.conf_th = conf_th
        self.latest = None
        self.running = False

    def run(self):
        ctx = cuda.Device(0).make_context()
        model = TrtSSD(self.path, (3, 300, 300))
        self.running = True
        while self.running:
            image = self.camera.read()
            outputs = model.detect(image)
            with self.condition:
                self.latest = (image, outputs)
                self.condition.notify()
        del model
        ctx.pop()

    def stop(self):
        self.running = False
        self.join()


class Camera:
    def __init__(self, shape=(3, 300, 300)):
        self.shape = shape
        self.rng = np.random.default_rng(0)

    def read(self):
        return self.rng.random(self.shape, dtype=np.float32)


def postprocess(output: np.ndarray, conf_th: float):
    rows = output.reshape(-1, 7)
    keep = rows[:, 2] >= conf_th
    return rows[keep, 3:7], rows[keep, 1].astype(int)


def loop_and_display(condition, thread: TrtThread, frames: int):
    shown = 0
    for _ in range(frames):
        with condition:
            if not condition.wait(timeout=10.0):
                raise SystemExit("timeout waiting for the detector")
            image, outputs = thread.latest
        boxes, classes = postprocess(outputs[0], thread.conf_th)
        shown += len(boxes)
    return shown


def main():
    cuda.init()
    condition = threading.Condition()
    thread = TrtThread(condition, Camera(), "ssd_mobilenet_v2.bin", 0.3)
    thread.start()
    print(loop_and_display(condition, thread, 100))
    thread.stop()


if __name__ == "__main__":
    main()
