import cupy as cp
import numpy as np

from detector import MotionDetector
from staging import PinnedStage
from upload import Uploader


def camera(count, height, width, seed=3):
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 255, (height, width, 3), dtype=np.uint8)
    for k in range(count):
        frame = base.copy()
        at = (k * 17) % (width - 64)
        frame[200:264, at:at + 64] = 255
        yield frame


class Monitor:
    def __init__(self, height, width, limit):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.stage = PinnedStage((height, width, 3))
        with self.stream:
            self.uploader = Uploader((height, width, 3), cp.uint8, self.stream)
            self.detector = MotionDetector(height, width, limit)

    def run(self, frames):
        with self.stream:
            for frame in frames:
                self.detector(self.uploader.send(self.stage.fill(frame)))
        self.stream.synchronize()
        return cp.asnumpy(self.detector.counts[:self.detector.seen])


def main():
    count = 300
    monitor = Monitor(2160, 3840, count)
    moved = monitor.run(camera(count, 2160, 3840))
    print(moved.mean(), moved.max())


if __name__ == "__main__":
    main()
