import cupy as cp
import numpy as np

from gpuio import FrameUploader


def gradient(img):
    gx = cp.zeros_like(img)
    gx[:, 1:-1] = img[:, 2:] - img[:, :-2]
    return gx


def cost(left, right, shift):
    return cp.abs(left[:, shift:] - right[:, :right.shape[1] - shift]).mean()


class StereoMatcher:
    def __init__(self, shape, shifts=16):
        self.up = FrameUploader(shape)
        self.shifts = shifts

    def load(self, left, right):
        self.up.done()
        self.up.host[...] = left
        a = gradient(self.up.send())
        self.up.host[...] = right
        b = gradient(self.up.send())
        return a, b

    def best_shift(self, left, right):
        a, b = self.load(left, right)
        costs = cp.stack([cost(a, b, s) for s in range(self.shifts)])
        return int(costs.argmin())


if __name__ == "__main__":
    rng = np.random.default_rng(1)
    scene = rng.random((1200, 1920), dtype=np.float32)
    matcher = StereoMatcher(scene.shape)
    print([matcher.best_shift(scene, np.roll(scene, -k, axis=1)) for k in range(8)])
