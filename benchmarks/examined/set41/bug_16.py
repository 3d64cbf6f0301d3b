"""Streaming histogram equalisation with numba: chunks in, lookup tables out."""
import numpy as np
from numba import cuda

LEVELS = 256


@cuda.jit
def histogram(img, hist):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i < img.size:
        cuda.atomic.add(hist, img[i], 1)
        i += step


@cuda.jit
def zero(hist):
    i = cuda.grid(1)
    if i < hist.size:
        hist[i] = 0


@cuda.jit
def remap(img, lut, out):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i < img.size:
        out[i] = lut[img[i]]
        i += step


class Lane:
    def __init__(self, pixels):
        self.stream = cuda.stream()
        self.counted = cuda.event(timing=False)
        self.finished = cuda.event(timing=False)
        self.h_img = cuda.pinned_array(pixels, dtype=np.uint8)
        self.h_hist = cuda.pinned_array(LEVELS, dtype=np.int32)
        self.h_lut = cuda.pinned_array(LEVELS, dtype=np.uint8)
        self.h_out = cuda.pinned_array(pixels, dtype=np.uint8)
        self.d_img = cuda.device_array(pixels, dtype=np.uint8)
        self.d_hist = cuda.device_array(LEVELS, dtype=np.int32)
        self.d_lut = cuda.device_array(LEVELS, dtype=np.uint8)
        self.d_out = cuda.device_array(pixels, dtype=np.uint8)


class Equalizer:
    GRID, BLOCK = 512, 256

    def __init__(self, pixels, lanes=2):
        self.pixels = pixels
        self.lanes = [Lane(pixels) for _ in range(lanes)]

    def submit(self, lane, image):
        lane.h_img[:] = image.ravel()
        lane.d_img.copy_to_device(lane.h_img, stream=lane.stream)
        zero[1, LEVELS, lane.stream](lane.d_hist)
        histogram[self.GRID, self.BLOCK, lane.stream](lane.d_img, lane.d_hist)
        lane.counted.record(lane.stream)
        lane.d_hist.copy_to_host(lane.h_hist, stream=lane.stream)

    def build_lut(self, lane):
        lane.counted.synchronize()
        cdf = np.cumsum(lane.h_hist, dtype=np.int64)
        lane.h_lut[:] = (255 * cdf // max(int(cdf[-1]), 1)).astype(np.uint8)

    def finish(self, lane):
        lane.d_lut.copy_to_device(lane.h_lut, stream=lane.stream)
        remap[self.GRID, self.BLOCK, lane.stream](lane.d_img, lane.d_lut, lane.d_out)
        lane.d_out.copy_to_host(lane.h_out, stream=lane.stream)
        lane.finished.record(lane.stream)

    def collect(self, lane, shape):
        lane.finished.synchronize()
        return lane.h_out.reshape(shape).copy()

    def run(self, images):
        k = len(self.lanes)
        for start in range(0, len(images), k):
            group = list(zip(self.lanes, images[start: start + k]))
            for lane, image in group:
                self.submit(lane, image)
            for lane, _ in group:
                self.build_lut(lane)
                self.finish(lane)
            for lane, image in group:
                yield self.collect(lane, image.shape)


def main():
    rng = np.random.default_rng(2)
    images = [rng.integers(0, 200, (2048, 2048), dtype=np.uint8) for _ in range(8)]
    eq = Equalizer(images[0].size)
    for out in eq.run(images):
        print(out.min(), out.max(), out.mean())


if __name__ == "__main__":
    main()
