"""Camera overlay: GPU draws into zero-copy memory, the CPU writes the frames out."""
import hashlib

import numpy as np
from numba import cuda, uint8


@cuda.jit
def gray_kernel(rgb, gray):
    x, y = cuda.grid(2)
    if x < gray.shape[1] and y < gray.shape[0]:
        r, g, b = rgb[y, x, 0], rgb[y, x, 1], rgb[y, x, 2]
        gray[y, x] = uint8(0.299 * r + 0.587 * g + 0.114 * b)


@cuda.jit
def overlay_kernel(gray, threshold, shown):
    x, y = cuda.grid(2)
    if x < gray.shape[1] and y < gray.shape[0]:
        v = gray[y, x]
        if v > threshold:
            shown[y, x] = 255
        else:
            shown[y, x] = v


class Overlay:
    def __init__(self, height, width):
        self.stream = cuda.stream()
        self.capture = cuda.pinned_array((height, width, 3), dtype=np.uint8)
        self.rgb = cuda.device_array((height, width, 3), dtype=np.uint8)
        self.gray = cuda.device_array((height, width), dtype=np.uint8)
        self.shown = cuda.mapped_array((height, width), dtype=np.uint8, stream=self.stream)
        self.block = (16, 16)
        self.grid = ((width + 15) // 16, (height + 15) // 16)

    def upload(self, frame):
        self.capture[...] = frame
        self.rgb.copy_to_device(self.capture, stream=self.stream)

    def process(self, frame, threshold):
        self.stream.synchronize()
        self.upload(frame)
        gray_kernel[self.grid, self.block, self.stream](self.rgb, self.gray)
        overlay_kernel[self.grid, self.block, self.stream](
            self.gray, threshold, self.shown)
        return self.shown


class Writer:
    def __init__(self):
        self.digest = hashlib.sha1()
        self.count = 0

    def write(self, image):
        self.digest.update(image.tobytes())
        self.count += 1


def camera(count, height, width):
    rng = np.random.default_rng(3)
    for _ in range(count):
        yield rng.integers(0, 256, size=(height, width, 3), dtype=np.uint8)


def main():
    overlay = Overlay(2160, 3840)
    writer = Writer()
    for frame in camera(8, 2160, 3840):
        image = overlay.process(frame, 200)
        writer.write(image)
    overlay.stream.synchronize()
    print(writer.count, writer.digest.hexdigest())


if __name__ == "__main__":
    main()
