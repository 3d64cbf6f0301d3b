"""Median background model: a third stream collects what two others produce."""
import cupy as cp
import numpy as np

SHAPE = (1024, 1024)


class Fork:
    """Runs branches on side streams between two points of a main stream."""

    def __init__(self, main, branches):
        self.main = main
        self.branches = branches
        self.start = cp.cuda.Event(disable_timing=True)
        self.ends = [cp.cuda.Event(disable_timing=True) for _ in branches]

    def __enter__(self):
        self.start.record(self.main)
        for branch in self.branches:
            branch.wait_event(self.start)
        return self.branches

    def __exit__(self, *exc):
        for branch, end in zip(self.branches, self.ends):
            end.record(branch)
            self.main.wait_event(end)
        return False


class Background:
    def __init__(self):
        self.main = cp.cuda.Stream(non_blocking=True)
        self.fork = Fork(self.main, [cp.cuda.Stream(non_blocking=True) for _ in range(2)])
        with self.main:
            self.rows = cp.empty(SHAPE, cp.float32)
            self.cols = cp.empty(SHAPE, cp.float32)
            self.model = cp.zeros(SHAPE, cp.float32)

    def update(self, image, weight=0.1):
        with self.main:
            frame = cp.asarray(image)
        with self.fork as (left, right):
            with left:
                cp.maximum(frame, cp.roll(frame, 1, axis=0), out=self.rows)
            with right:
                cp.maximum(frame, cp.roll(frame, 1, axis=1), out=self.cols)
        with self.main:
            blend = 0.5 * (self.rows + self.cols)
            self.model += weight * (blend - self.model)

    def get(self):
        with self.main:
            return self.model.get()


if __name__ == "__main__":
    rng = np.random.default_rng(14)
    background = Background()
    for _ in range(100):
        background.update(rng.random(SHAPE, dtype=np.float32))
    print(background.get().mean())
