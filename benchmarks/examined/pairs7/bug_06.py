"""Centroids of star images; a host function wakes the guide loop."""
import threading

import cupy as cp
import cupyx
import numpy as np

SHAPE = (512, 512)


class Centroid:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.image = cupyx.empty_pinned(SHAPE, np.float32)
        self.result = cupyx.empty_pinned(3, np.float32)
        self.finished = threading.Event()
        with self.stream:
            self.y, self.x = (g.astype(cp.float32) for g in cp.indices(SHAPE))
            self.dev = cp.empty(SHAPE, cp.float32)
            self.out = cp.empty(3, cp.float32)

    def _wake(self, _):
        self.finished.set()

    def start(self, frame):
        self.finished.clear()
        self.image[...] = frame
        with self.stream:
            self.dev.set(self.image, stream=self.stream)
            weight = cp.maximum(self.dev - 10.0, 0.0)
            self.out[0] = weight.sum()
            self.out[1] = (weight * self.x).sum()
            self.out[2] = (weight * self.y).sum()
            self.stream.launch_host_func(self._wake, None)
            self.out.get(stream=self.stream, out=self.result, blocking=False)

    def wait(self, timeout=1.0):
        if not self.finished.wait(timeout):
            raise TimeoutError("no centroid")
        mass, mx, my = self.result
        return mx / mass, my / mass


def guide(frames):
    centroid = Centroid()
    track = []
    for frame in frames:
        centroid.start(frame)
        track.append(centroid.wait())
    return track


if __name__ == "__main__":
    rng = np.random.default_rng(9)
    star = np.zeros(SHAPE, np.float32)
    star[200:210, 300:310] = 500.0
    print(guide(star + rng.normal(0, 1, SHAPE).astype(np.float32) for _ in range(25))[:2])
