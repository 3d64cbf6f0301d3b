"""YOLO inference: CuPy pre/postprocessing around a TensorRT context."""
import cupy as cp
import numpy as np
import tensorrt as trt


def build_context(path):
    runtime = trt.Runtime(trt.Logger(trt.Logger.WARNING))
    with open(path, "rb") as f:
        engine = runtime.deserialize_cuda_engine(f.read())
    return engine, engine.create_execution_context()


class YoloDetector:
    def __init__(self, plan, batch=8, size=640):
        self.engine, self.context = build_context(plan)
        self.images = cp.zeros((batch, 3, size, size), cp.float32)
        self.boxes = cp.zeros((batch, 25200, 85), cp.float32)
        self.context.set_tensor_address("images", self.images.data.ptr)
        self.context.set_tensor_address("output0", self.boxes.data.ptr)
        self.stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.Device().synchronize()

    def _letterbox(self, frames):
        x = cp.asarray(frames).transpose(0, 3, 1, 2).astype(cp.float32)
        self.images[...] = x / 255.0

    def detect(self, frames, threshold=0.4):
        self._letterbox(frames)
        self.context.execute_async_v3(self.stream.ptr)
        self.stream.synchronize()
        conf = self.boxes[..., 4]
        keep = conf > threshold
        return [cp.asnumpy(self.boxes[i][keep[i]]) for i in range(len(frames))]


def frames_from(path, batch):
    clip = np.load(path, mmap_mode="r")
    for i in range(0, len(clip) - batch + 1, batch):
        yield np.ascontiguousarray(clip[i:i + batch])


if __name__ == "__main__":
    det = YoloDetector("yolov5s.plan")
    for chunk in frames_from("clip_640.npy", 8):
        print([len(b) for b in det.detect(chunk)])
