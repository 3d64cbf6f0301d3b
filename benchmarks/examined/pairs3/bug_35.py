"""Stitch camera strips into a panorama; strips are warped on their own streams."""
import cupy as cp
import numpy as np

warp_strip = cp.ElementwiseKernel(
    "raw float32 src, int32 width, float32 bend", "float32 dst",
    "int y = i / width, x = i % width;"
    "int sx = x + (int)(bend * sinf(0.01f * y));"
    "dst = src[y * width + min(max(sx, 0), width - 1)];",
    "warp_strip")


class Camera:
    def __init__(self, shape, bend):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.bend = np.float32(bend)
        with self.stream:
            self.raw = cp.zeros(shape, cp.float32)
            self.strip = cp.zeros(shape, cp.float32)


class Panorama:
    def __init__(self, cameras, shape):
        self.cameras = cameras
        self.compose = cp.cuda.Stream(non_blocking=True)
        self.warped = cp.cuda.Event(disable_timing=True)
        self.composed = cp.cuda.Event(disable_timing=True)
        with self.compose:
            self.canvas = cp.zeros((shape[0], shape[1] * len(cameras)), cp.float32)

    def warp(self, camera, image):
        with camera.stream as stream:
            stream.wait_event(self.composed)
            camera.raw[...] = cp.asarray(image)
            warp_strip(camera.raw, np.int32(image.shape[1]), camera.bend, camera.strip)
            self.warped.record(stream)

    def render(self, images):
        for camera, image in zip(self.cameras, images):
            self.warp(camera, image)
        with self.compose as stream:
            stream.wait_event(self.warped)
            cp.concatenate([c.strip for c in self.cameras], axis=1, out=self.canvas)
            self.composed.record(stream)
            return cp.asnumpy(self.canvas)


def main(frames=100, shape=(1080, 640)):
    cams = [Camera(shape, b) for b in (-12, -4, 4, 12)]
    pano = Panorama(cams, shape)
    rng = np.random.default_rng(0)
    for k in range(frames):
        images = [rng.random(shape, dtype=np.float32) for _ in cams]
        np.save(f"pano_{k:04d}.npy", pano.render(images))


if __name__ == "__main__":
    main()
