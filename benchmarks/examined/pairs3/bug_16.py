"""Dense optical flow between consecutive frames of a movie with OpenCV CUDA."""
import cv2
import numpy as np


class FlowExtractor:
    def __init__(self, width, height):
        self.stream = cv2.cuda.Stream()
        self.frame = np.zeros((height, width, 3), np.uint8)
        cv2.cuda.registerPageLocked(self.frame)
        self.color = cv2.cuda.GpuMat(height, width, cv2.CV_8UC3)
        self.gray = [cv2.cuda.GpuMat(height, width, cv2.CV_8UC1) for _ in range(2)]
        self.flow = cv2.cuda.GpuMat(height, width, cv2.CV_32FC2)
        self.total = cv2.cuda.GpuMat(height, width, cv2.CV_32FC2, (0, 0, 0, 0))
        self.algo = cv2.cuda.FarnebackOpticalFlow.create()
        self.index = 0

    def close(self):
        self.stream.waitForCompletion()
        cv2.cuda.unregisterPageLocked(self.frame)

    def push(self, image):
        np.copyto(self.frame, image)
        self.color.upload(self.frame, self.stream)
        current = self.gray[self.index % 2]
        previous = self.gray[(self.index + 1) % 2]
        cv2.cuda.cvtColor(self.color, cv2.COLOR_BGR2GRAY, current, 0, self.stream)
        if self.index:
            self.algo.calc(previous, current, self.flow, self.stream)
            cv2.cuda.add(self.total, self.flow, self.total, stream=self.stream)
        self.index += 1

    def mean_flow(self):
        self.stream.waitForCompletion()
        return self.total.download() / max(self.index - 1, 1)


def main(path="movie.mp4"):
    cap = cv2.VideoCapture(path)
    w = int(cap.get(cv2.CAP_PROP_FRAME_WIDTH))
    h = int(cap.get(cv2.CAP_PROP_FRAME_HEIGHT))
    fx = FlowExtractor(w, h)
    while True:
        ok, image = cap.read()
        if not ok:
            break
        fx.push(image)
    np.save("flow.npy", fx.mean_flow())
    fx.close()


if __name__ == "__main__":
    main()
