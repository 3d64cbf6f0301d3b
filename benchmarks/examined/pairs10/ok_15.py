"""Sobel magnitudes with Numba, result in pinned memory."""
import numpy as np
from numba import cuda


@cuda.jit
def sobel(src, dst):
    y, x = cuda.grid(2)
    if 0 < y < src.shape[0] - 1 and 0 < x < src.shape[1] - 1:
        gx = src[y, x + 1] - src[y, x - 1]
        gy = src[y + 1, x] - src[y - 1, x]
        dst[y, x] = (gx * gx + gy * gy) ** 0.5


class EdgeDetector:
    def __init__(self, shape):
        self.shape = shape
        self.stream = cuda.stream()
        self.image = cuda.pinned_array(shape, dtype=np.float32)
        self.edges = cuda.pinned_array(shape, dtype=np.float32)
        self.d_image = cuda.device_array(shape, dtype=np.float32, stream=self.stream)
        self.d_edges = cuda.device_array(shape, dtype=np.float32, stream=self.stream)
        self.grid = ((shape[0] + 15) // 16, (shape[1] + 15) // 16)

    def detect(self, frame):
        np.copyto(self.image, frame)
        with self.stream.auto_synchronize() as stream:
            self.d_image.copy_to_device(self.image, stream=stream)
            sobel[self.grid, (16, 16), stream](self.d_image, self.d_edges)
            self.d_edges.copy_to_host(self.edges, stream=stream)
        return self.edges

    def strongest(self, frame):
        edges = self.detect(frame)
        return np.unravel_index(int(edges.argmax()), self.shape)


def main():
    rng = np.random.default_rng(13)
    detector = EdgeDetector((2160, 3840))
    for _ in range(20):
        frame = rng.random((2160, 3840), dtype=np.float32)
        print(detector.strongest(frame))


if __name__ == "__main__":
    main()
