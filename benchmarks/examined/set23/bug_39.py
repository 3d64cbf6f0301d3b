"""Inference node with CuPy output converters."""
import cupy as cp
import numpy as np


class BaseObjectModelOutputConverter:
    def __init__(self, confidence_threshold=0.4, top_k=100):
        self.confidence_threshold = confidence_threshold
        self.top_k = top_k


class YoloConverter(BaseObjectModelOutputConverter):
    """Raw detector rows (cx, cy, w, h, objectness, classes...) to boxes."""

    def __call__(self, output, roi):
        scores = output[:, 4:5] * output[:, 5:]
        class_ids = cp.argmax(scores, axis=-1)
        confidences = cp.max(scores, axis=-1)
        order = cp.argsort(-confidences)[: self.top_k]
        keep = order[confidences[order] > self.confidence_threshold]
        boxes = output[keep, :4]
        boxes *= cp.asarray([roi[2], roi[3], roi[2], roi[3]], dtype=cp.float32)
        return cp.concatenate(
            (
                class_ids[keep, None].astype(cp.float32),
                confidences[keep, None],
                boxes,
            ),
            axis=1,
        )


class LinearDetector:
    def __init__(self, anchors, features, classes, seed=0):
        rng = cp.random.RandomState(seed)
        self.weight = rng.standard_normal((features, 5 + classes), dtype=cp.float32)
        self.anchors = anchors
        self.features = features

    def infer(self, frame):
        patches = frame.reshape(self.anchors, self.features)
        return 1.0 / (1.0 + cp.exp(-(patches @ self.weight)))


class NvInferProcessor:
    def __init__(self, model, converter):
        self.model = model
        self.converter = converter
        self.stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.Device().synchronize()

    def _preprocess(self, image):
        frame = cp.asarray(image, dtype=cp.float32)
        return (frame - 127.5) / 127.5

    def process_frame(self, image):
        with self.stream:
            output = self.model.infer(self._preprocess(image))
        height, width = image.shape[:2]
        objects = self.converter(output, (0, 0, width, height))
        return cp.asnumpy(objects)

    def close(self):
        self.stream.synchronize()


def run_pipeline(source, anchors=4096, features=48, classes=20):
    node = NvInferProcessor(LinearDetector(anchors, features, classes), YoloConverter())
    try:
        return [node.process_frame(image) for image in source]
    finally:
        node.close()


if __name__ == "__main__":
    frames = [np.random.randint(0, 255, (256, 256, 3)).astype(np.float32) for _ in range(10)]
    print([len(o) for o in run_pipeline(frames)])
