"""Semantic segmentation with a serialized TensorRT plan (PyCUDA buffers)."""
import cv2
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
import tensorrt as trt

MEAN = np.array([123.675, 116.28, 103.53], dtype=np.float32)


class Segmenter:
    def __init__(self, plan_path, size=1024, classes=19):
        logger = trt.Logger(trt.Logger.ERROR)
        with open(plan_path, "rb") as f, trt.Runtime(logger) as rt:
            self.engine = rt.deserialize_cuda_engine(f.read())
        self.ctx = self.engine.create_execution_context()
        self.size = size
        self.h_in = cuda.pagelocked_empty((1, 3, size, size), np.float32)
        self.h_out = cuda.pagelocked_empty((1, classes, size, size), np.float32)
        self.d_in = cuda.mem_alloc(self.h_in.nbytes)
        self.d_out = cuda.mem_alloc(self.h_out.nbytes)
        self.ctx.set_tensor_address("image", int(self.d_in))
        self.ctx.set_tensor_address("logits", int(self.d_out))
        self.stream = cuda.Stream()

    def preprocess(self, bgr):
        img = cv2.resize(bgr, (self.size, self.size)).astype(np.float32) - MEAN
        np.copyto(self.h_in[0], img.transpose(2, 0, 1))

    def infer(self, bgr):
        self.preprocess(bgr)
        cuda.memcpy_htod_async(self.d_in, self.h_in, self.stream)
        self.ctx.execute_async_v3(self.stream.handle)
        cuda.memcpy_dtoh_async(self.h_out, self.d_out, self.stream)
        labels = self.h_out[0].argmax(axis=0).astype(np.uint8)
        self.stream.synchronize()
        return labels


def main(video="drive.mp4"):
    seg = Segmenter("bisenet.plan")
    cap = cv2.VideoCapture(video)
    index = 0
    while True:
        ok, frame = cap.read()
        if not ok:
            break
        cv2.imwrite(f"mask_{index:05d}.png", seg.infer(frame))
        index += 1


if __name__ == "__main__":
    main()
