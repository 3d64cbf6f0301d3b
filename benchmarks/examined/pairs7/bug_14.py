"""Gradient magnitude of volumes: two derivative streams and one that joins them."""
import cupy as cp
import numpy as np

SHAPE = (128, 256, 256)


class JoinedStreams:
    def __init__(self, count):
        self.root = cp.cuda.Stream(non_blocking=True)
        self.sides = [cp.cuda.Stream(non_blocking=True) for _ in range(count)]
        self.go = cp.cuda.Event(disable_timing=True)
        self.done = cp.cuda.Event(disable_timing=True)

    def __enter__(self):
        self.go.record(self.root)
        for side in self.sides:
            side.wait_event(self.go)
        return self.sides

    def __exit__(self, *exc):
        for side in self.sides:
            self.done.record(side)
        self.root.wait_event(self.done)
        return False


class GradientMagnitude:
    def __init__(self):
        self.streams = JoinedStreams(3)
        with self.streams.root:
            self.parts = [cp.empty(SHAPE, cp.float32) for _ in range(3)]

    def __call__(self, volume):
        root = self.streams.root
        with root:
            vol = cp.asarray(volume)
        with self.streams as sides:
            for axis, side in enumerate(sides):
                with side:
                    cp.subtract(cp.roll(vol, -1, axis), vol, out=self.parts[axis])
        with root:
            total = self.parts[0] ** 2
            for part in self.parts[1:]:
                total += part ** 2
            return cp.sqrt(total).get()


def main():
    rng = np.random.default_rng(15)
    gradient = GradientMagnitude()
    for _ in range(12):
        print(gradient(rng.random(SHAPE, dtype=np.float32)).max())


if __name__ == "__main__":
    main()
