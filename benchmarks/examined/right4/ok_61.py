import threading

import cupy as cp
import cupyx
import numpy as np


class Line:
    def __init__(self, shape):
        self.host = cupyx.empty_pinned(shape, np.float32)
        self.dev = cp.empty(shape, np.float32)
        self.free = threading.Event()
        self.free.set()


def _release(line):
    line.free.set()


class Integrator:
    def __init__(self, shape, lines=2):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.lines = [Line(shape) for _ in range(lines)]
            self.total = cp.zeros(shape, np.float64)
        self.count = 0

    def checkout(self):
        line = self.lines[self.count % len(self.lines)]
        self.count += 1
        line.free.wait()
        line.free.clear()
        return line

    def commit(self, line):
        with self.stream:
            line.dev.set(line.host, stream=self.stream)
            self.stream.launch_host_func(_release, line)
            cp.add(self.total, line.dev, out=self.total)

    def result(self):
        with self.stream:
            mean = self.total / self.count
            host = cp.asnumpy(mean, stream=self.stream)
        self.stream.synchronize()
        return host


class Camera:
    def __init__(self, shape, frames, seed=0):
        self.rng = np.random.default_rng(seed)
        self.shape, self.frames = shape, frames

    def expose(self, out):
        self.rng.random(out=out, dtype=np.float32)


def main():
    shape = (512, 512)
    camera, integrator = Camera(shape, 100), Integrator(shape)
    for _ in range(camera.frames):
        line = integrator.checkout()
        camera.expose(line.host)
        integrator.commit(line)
    return integrator.result().mean()


if __name__ == "__main__":
    print(main())
