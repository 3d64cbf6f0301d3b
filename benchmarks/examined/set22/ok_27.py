"""Image loop: preprocessing on the device, detector session with bound buffers."""
import cupy as cp
import cupyx
import numpy as np
import onnxruntime as ort


class Preprocess:
    def __init__(self, shape):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.staging = cupyx.empty_pinned(shape, np.uint8)
        with self.stream:
            self.raw = cp.empty(shape, cp.uint8)

    def __call__(self, frame, out):
        self.staging[...] = frame
        self.raw.set(self.staging, stream=self.stream)
        with self.stream:
            planes = self.raw.transpose(2, 0, 1).astype(cp.float32)
            planes /= 255.0
            out[0] = planes
        self.stream.synchronize()


class Detector:
    def __init__(self, path, height, width, boxes):
        self.session = ort.InferenceSession(path, providers=["CUDAExecutionProvider"])
        self.pre = Preprocess((height, width, 3))
        self.input = cp.zeros((1, 3, height, width), cp.float32)
        self.output = cp.zeros((boxes, 6), cp.float32)
        cp.cuda.get_current_stream().synchronize()
        self.binding = self.session.io_binding()
        self.binding.bind_input(
            "images", "cuda", 0, np.float32, self.input.shape, self.input.data.ptr)
        self.binding.bind_output(
            "boxes", "cuda", 0, np.float32, self.output.shape, self.output.data.ptr)

    def infer(self, frame, threshold=0.4):
        self.pre(frame, self.input)
        self.session.run_with_iobinding(self.binding)
        self.binding.synchronize_outputs()
        boxes = cp.asnumpy(self.output)
        return boxes[boxes[:, 4] > threshold]


def main():
    det = Detector("detector.onnx", 640, 640, 300)
    rng = np.random.default_rng(3)
    for _ in range(20):
        frame = rng.integers(0, 255, (640, 640, 3), dtype=np.uint8)
        print(len(det.infer(frame)))


if __name__ == "__main__":
    main()
