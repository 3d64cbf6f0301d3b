"""Lidar return processing: stages are methods bound to streams by a decorator."""
import functools

import cupy as cp
import numpy as np

N = 1 << 21


def stage(name, after=()):
    def wrap(fn):
        @functools.wraps(fn)
        def call(self, *args):
            stream = self.streams[name]
            for other in after:
                stream.wait_event(self.marks[other])
            with stream:
                out = fn(self, *args)
                self.marks[name].record(stream)
            return out
        return call
    return wrap


class LidarPipeline:
    STAGES = ("upload", "range", "grid")

    def __init__(self):
        self.streams = {s: cp.cuda.Stream(non_blocking=True) for s in self.STAGES}
        self.marks = {s: cp.cuda.Event(disable_timing=True) for s in self.STAGES}
        self.ticks = cp.empty(N, cp.int32)
        self.meters = cp.empty(N, cp.float32)
        with self.streams["grid"]:
            self.bins = cp.zeros(1024, cp.int64)

    @stage("upload", after=("range",))
    def upload(self, ticks):
        self.ticks[...] = cp.asarray(ticks)

    @stage("range", after=("upload", "grid"))
    def to_range(self):
        cp.multiply(self.ticks, cp.float32(0.0149896), out=self.meters)

    @stage("grid", after=("range",))
    def to_grid(self):
        index = cp.clip(self.meters, 0.0, 1023.0).astype(cp.int32)
        self.bins += cp.bincount(index, minlength=1024)

    @stage("grid")
    def download(self):
        return self.bins.get()


def main():
    rng = np.random.default_rng(30)
    pipeline = LidarPipeline()
    for _ in range(50):
        pipeline.upload(rng.integers(0, 70000, N, dtype=np.int32))
        pipeline.to_range()
        pipeline.to_grid()
    print(pipeline.download()[:8])


if __name__ == "__main__":
    main()
