"""Thumbnail generator: frames are resized and converted with the OpenCV CUDA modules."""
import cv2
import numpy as np


class PinnedMat:
    """A page-locked host matrix with its numpy header."""

    def __init__(self, rows, cols, kind):
        self.mem = cv2.cuda.HostMem(rows, cols, kind, cv2.cuda.HostMem_PAGE_LOCKED)
        self.array = self.mem.createMatHeader()


class Thumbnailer:
    def __init__(self, width, height, out_width=320, out_height=180):
        self.size = (out_width, out_height)
        self.stream = cv2.cuda.Stream()
        self.host_in = PinnedMat(height, width, cv2.CV_8UC3)
        self.host_out = PinnedMat(out_height, out_width, cv2.CV_8UC1)
        self.frame = cv2.cuda.GpuMat(height, width, cv2.CV_8UC3)
        self.small = cv2.cuda.GpuMat(out_height, out_width, cv2.CV_8UC3)
        self.gray = cv2.cuda.GpuMat(out_height, out_width, cv2.CV_8UC1)
        self.blurred = cv2.cuda.GpuMat(out_height, out_width, cv2.CV_8UC1)
        self.gauss = cv2.cuda.createGaussianFilter(cv2.CV_8UC1, cv2.CV_8UC1, (5, 5), 1.2)

    def load(self, image):
        np.copyto(self.host_in.array, image)
        self.frame.upload(self.host_in.array, self.stream)

    def process(self):
        cv2.cuda.resize(self.frame, self.size, self.small, stream=self.stream)
        cv2.cuda.cvtColor(self.small, cv2.COLOR_BGR2GRAY, self.gray, stream=self.stream)
        self.gauss.apply(self.gray, self.blurred, self.stream)

    def fetch(self):
        self.blurred.download(self.stream, self.host_out.array)
        return self.host_out.array.copy()

    def __call__(self, image):
        self.load(image)
        self.process()
        return self.fetch()


def sharpness(thumb):
    return float(cv2.Laplacian(thumb, cv2.CV_64F).var())


def main(path="input.mp4"):
    capture = cv2.VideoCapture(path)
    width = int(capture.get(cv2.CAP_PROP_FRAME_WIDTH))
    height = int(capture.get(cv2.CAP_PROP_FRAME_HEIGHT))
    thumbnailer = Thumbnailer(width, height)
    best, best_score = None, -1.0
    while True:
        ok, image = capture.read()
        if not ok:
            break
        thumb = thumbnailer(image)
        score = sharpness(thumb)
        if score > best_score:
            best, best_score = thumb, score
    if best is not None:
        cv2.imwrite("poster.png", best)
    print(best_score)


if __name__ == "__main__":
    main()
