"""Three-stage point cloud pipeline in Numba; every stage has its own stream."""
import math

import numpy as np
from numba import cuda


@cuda.jit
def unpack(raw, points, scale):
    i = cuda.grid(1)
    if i < points.shape[0]:
        for k in range(3):
            points[i, k] = raw[i, k] * scale


@cuda.jit
def transform(points, pose, moved):
    i = cuda.grid(1)
    if i < points.shape[0]:
        for r in range(3):
            moved[i, r] = (
                pose[r, 0] * points[i, 0] + pose[r, 1] * points[i, 1] + pose[r, 2] * points[i, 2] + pose[r, 3]
            )


@cuda.jit
def residual(points, moved, out):
    i = cuda.grid(1)
    if i < points.shape[0]:
        s = 0.0
        for k in range(3):
            d = moved[i, k] - points[i, k]
            s += d * d
        out[i] = math.sqrt(s)


class Stage:
    def __init__(self):
        self.stream = cuda.stream()
        self.done = cuda.event(timing=False)

    def finish(self):
        self.done.record(self.stream)

    def after(self, other):
        other.done.wait(self.stream)


class PointPipeline:
    def __init__(self, n):
        self.n = n
        self.threads = 256
        self.blocks = (n + 255) // 256
        self.ingest, self.move, self.score = Stage(), Stage(), Stage()
        self.raw_host = cuda.pinned_array((n, 3), dtype=np.int16)
        self.out_host = cuda.pinned_array(n, dtype=np.float32)
        self.raw = cuda.device_array((n, 3), dtype=np.int16)
        self.points = cuda.device_array((n, 3), dtype=np.float32)
        self.moved = cuda.device_array((n, 3), dtype=np.float32)
        self.out = cuda.device_array(n, dtype=np.float32)
        self.pose = cuda.to_device(np.eye(3, 4, dtype=np.float32))
        cuda.synchronize()

    def run(self, frame, scale):
        self.raw_host[:] = frame
        self.raw.copy_to_device(self.raw_host, stream=self.ingest.stream)
        unpack[self.blocks, self.threads, self.ingest.stream](self.raw, self.points, scale)
        self.ingest.finish()

        self.move.after(self.ingest)
        transform[self.blocks, self.threads, self.move.stream](self.points, self.pose, self.moved)
        self.move.finish()

        self.score.after(self.move)
        residual[self.blocks, self.threads, self.score.stream](self.points, self.moved, self.out)
        self.out.copy_to_host(self.out_host, stream=self.score.stream)
        self.score.finish()
        self.score.done.synchronize()
        return self.out_host


class Odometry:
    def __init__(self, n):
        self.pipeline = PointPipeline(n)
        self.trace = []

    def update(self, frame):
        errors = self.pipeline.run(frame, 0.002)
        self.trace.append((float(errors.mean()), float(errors.max())))


def main():
    rng = np.random.default_rng(0)
    odometry = Odometry(1 << 20)
    for _ in range(20):
        odometry.update(rng.integers(-20000, 20000, size=(1 << 20, 3), dtype=np.int16))
    print(odometry.trace[-1])


if __name__ == "__main__":
    main()
