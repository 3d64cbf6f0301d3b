"""Reads camera pictures and keeps a running background on the GPU."""
import cupy as cp
import cupyx
import cv2
import numpy as np


class CameraReader:
    def __init__(self, url, height, width):
        self.capture = cv2.VideoCapture(url)
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.numpy_frame = cupyx.empty_pinned((height, width, 3), dtype=np.uint8)
        self.cupy_frame = cp.empty((height, width, 3), dtype=cp.uint8)

    def read(self):
        ok, _ = self.capture.read(self.numpy_frame)
        if not ok:
            return None
        self.cupy_frame.set(self.numpy_frame, stream=self.stream)
        return self.cupy_frame


class BackgroundModel:
    def __init__(self, height, width, stream, rate=0.02):
        self.stream = stream
        self.rate = rate
        with stream:
            self.mean = cp.zeros((height, width), dtype=cp.float32)
            self.moving = cp.zeros((), dtype=cp.int64)

    def update(self, frame):
        with self.stream:
            gray = frame.astype(cp.float32).mean(axis=2)
            diff = cp.abs(gray - self.mean)
            self.moving += (diff > 25).sum()
            self.mean += self.rate * (gray - self.mean)


class MotionCounter:
    def __init__(self, url, height=1080, width=1920):
        self.reader = CameraReader(url, height, width)
        self.model = BackgroundModel(height, width, self.reader.stream)

    def run(self, report_every=250):
        seen = 0
        while True:
            frame = self.reader.read()
            if frame is None:
                break
            self.model.update(frame)
            seen += 1
            if seen % report_every == 0:
                print(seen, self.snapshot())
        return self.snapshot()

    def snapshot(self):
        value = self.model.moving.get(stream=self.reader.stream)
        self.reader.stream.synchronize()
        return int(value)


if __name__ == "__main__":
    print(MotionCounter("rtsp://camera/stream").run())
