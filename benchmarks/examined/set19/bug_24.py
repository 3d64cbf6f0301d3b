"""Edge-activity map over a burst of frames, on a prioritised stream."""
import cv2
import numpy as np

CUDA_STREAM_NON_BLOCKING = 0x01


class EdgeActivityDetector:
    """Marks moving edges of consecutive frames and accumulates them."""

    def __init__(self, height, width, threshold=24.0):
        self.stream = cv2.cuda.Stream(CUDA_STREAM_NON_BLOCKING)
        self.threshold = threshold
        self.sobel_x = cv2.cuda.createSobelFilter(cv2.CV_8UC1, cv2.CV_32FC1, 1, 0)
        self.sobel_y = cv2.cuda.createSobelFilter(cv2.CV_8UC1, cv2.CV_32FC1, 0, 1)
        shape = (height, width)
        self.dx = self._alloc(shape, cv2.CV_32FC1)
        self.dy = self._alloc(shape, cv2.CV_32FC1)
        self.magnitude = self._alloc(shape, cv2.CV_32FC1)
        self.strong = self._alloc(shape, cv2.CV_32FC1)
        self.map = self._alloc(shape, cv2.CV_32FC1)
        self.activity = self._alloc(shape, cv2.CV_32FC1)
        self.activity.setTo((0.0,), self.stream)

    @staticmethod
    def _alloc(shape, mat_type):
        return cv2.cuda.GpuMat(shape[0], shape[1], mat_type)

    def _edges(self, frame):
        self.sobel_x.apply(frame, self.dx, self.stream)
        self.sobel_y.apply(frame, self.dy, self.stream)
        cv2.cuda.magnitude(self.dx, self.dy, self.magnitude, stream=self.stream)
        cv2.cuda.threshold(self.magnitude, self.threshold, 1.0, cv2.THRESH_BINARY,
                           self.strong, stream=self.stream)

    def _trace(self):
        self.map.setTo((0.0,))
        cv2.cuda.max(self.map, self.strong, self.map, stream=self.stream)

    def push(self, frame):
        self._edges(frame)
        self._trace()
        cv2.cuda.addWeighted(self.activity, 0.9, self.map, 0.1, 0.0, self.activity,
                             stream=self.stream)

    def read(self):
        self.stream.waitForCompletion()
        return self.activity.download()


def load_burst(count, height, width):
    rng = np.random.default_rng(11)
    burst = []
    for _ in range(count):
        gpu = cv2.cuda.GpuMat()
        gpu.upload(rng.integers(0, 255, (height, width), dtype=np.uint8))
        burst.append(gpu)
    return burst


def main():
    height, width = 1080, 1920
    burst = load_burst(32, height, width)
    cv2.cuda.Stream_Null().waitForCompletion()
    detector = EdgeActivityDetector(height, width)
    for frame in burst:
        detector.push(frame)
    print(float(detector.read().mean()))


if __name__ == "__main__":
    main()
