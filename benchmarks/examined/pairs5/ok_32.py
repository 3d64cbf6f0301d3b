"""Imaging stages with a common base class: the base waits before and signals after every stage."""
from abc import ABC, abstractmethod
import cupy as cp
from cupyx.scipy import ndimage


class Stage(ABC):
    def __init__(self, shape):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.out = cp.zeros(shape, cp.float32)
        self.finished = cp.cuda.Event(disable_timing=True)
        self.released = cp.cuda.Event(disable_timing=True)

    def __call__(self, image, after, done_with):
        s = self.stream
        s.wait_event(after)
        s.wait_event(self.released)
        with s:
            self.process(image)
        self.finished.record(s)
        done_with.record(s)
        return self.out, self.finished, self.released

    @abstractmethod
    def process(self, image):
        ...


class Flatten(Stage):
    def __init__(self, shape, gain):
        super().__init__(shape)
        self.gain = gain

    def process(self, image):
        cp.divide(image, self.gain, out=self.out)


class Smooth(Stage):
    def process(self, image):
        ndimage.gaussian_filter(image, 2.0, output=self.out)


class Sharpen(Stage):
    def process(self, image):
        self.out[...] = image + 0.5 * (image - ndimage.uniform_filter(image, 5))


class Pipeline:
    def __init__(self, stages):
        self.stages = stages
        self.freed = cp.cuda.Event(disable_timing=True)

    def run(self, frames):
        main = cp.cuda.get_current_stream()
        peaks = []
        for frame in frames:
            image, event, freed = frame, main.record(), self.freed
            for stage in self.stages:
                image, event, freed = stage(image, event, freed)
            main.wait_event(event)
            peaks.append(image.max())
            freed.record(main)
        return peaks


def main():
    shape = (2048, 2048)
    gain = cp.random.random(shape, dtype=cp.float32) + 0.5
    pipeline = Pipeline([Flatten(shape, gain), Smooth(shape), Sharpen(shape)])
    frames = [cp.random.random(shape, dtype=cp.float32) for _ in range(10)]
    cp.cuda.get_current_stream().synchronize()
    print([float(p) for p in pipeline.run(frames)])


if __name__ == "__main__":
    main()
