"""Camera source: NV12 frames are converted on the GPU inside mapped (zero-copy) ring buffers."""
import cv2
import numpy as np
from numba import cuda


@cuda.jit(device=True)
def clamp(v):
    return min(max(v, 0.0), 255.0)


@cuda.jit
def nv12_to_rgb(nv12, height, rgb):
    x, y = cuda.grid(2)
    if y < rgb.shape[0] and x < rgb.shape[1]:
        luma = 1.164 * (float(nv12[y, x]) - 16.0)
        base = height + y // 2
        u = float(nv12[base, (x // 2) * 2]) - 128.0
        v = float(nv12[base, (x // 2) * 2 + 1]) - 128.0
        rgb[y, x, 0] = np.uint8(clamp(luma + 1.596 * v))
        rgb[y, x, 1] = np.uint8(clamp(luma - 0.813 * v - 0.391 * u))
        rgb[y, x, 2] = np.uint8(clamp(luma + 2.018 * u))


class RingBuffer:
    def __init__(self, count, shape):
        self.slots = [cuda.mapped_array(shape, dtype=np.uint8) for _ in range(count)]
        self.write = -1

    def next(self):
        self.write = (self.write + 1) % len(self.slots)
        return self.slots[self.write]

    def peek(self):
        return self.slots[self.write]


class BufferManager:
    """Takes raw frames from the decoder and hands out RGB images."""

    def __init__(self, width, height, count=4):
        self.width, self.height = width, height
        self.raw = RingBuffer(count, (height * 3 // 2, width))
        self.rgb = RingBuffer(count, (height, width, 3))
        self.stream = cuda.stream()
        self.block = (32, 8)
        self.grid = ((width + 31) // 32, (height + 7) // 8)
        self.frames = 0

    def enqueue(self, frame):
        self.raw.next()[...] = frame
        self.frames += 1

    def dequeue(self):
        if self.frames == 0:
            return None
        nv12 = self.raw.peek()
        image = self.rgb.next()
        nv12_to_rgb[self.grid, self.block, self.stream](nv12, self.height, image)
        return image


class VideoSource:
    def __init__(self, path, width=1920, height=1080):
        self.capture = cv2.VideoCapture(path)
        self.capture.set(cv2.CAP_PROP_CONVERT_RGB, 0)
        self.manager = BufferManager(width, height)

    def frames(self):
        while True:
            ok, raw = self.capture.read()
            if not ok:
                return
            self.manager.enqueue(raw.reshape(self.manager.height * 3 // 2, self.manager.width))
            yield self.manager.dequeue()


def main(path="camera.nv12"):
    source = VideoSource(path)
    means = []
    for index, image in enumerate(source.frames()):
        means.append(image.reshape(-1, 3).mean(axis=0))
        if index % 30 == 0:
            cv2.imwrite(f"frame_{index:05d}.png", np.ascontiguousarray(image[..., ::-1]))
    print(np.mean(means, axis=0))


if __name__ == "__main__":
    main()
