"""Texture measures: operators on a base class that owns the streams."""
import cupy as cp
import cupyx
import numpy as np

SHAPE = (2048, 2048)


class Measure:
    def __init__(self):
        self.to_device = cp.cuda.Stream(non_blocking=True)
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.to_host = cp.cuda.Stream(non_blocking=True)
        self.source = cupyx.empty_pinned(SHAPE, np.float32)
        self.target = cupyx.empty_pinned(SHAPE, np.float32)
        self.x = cp.empty(SHAPE, cp.float32)
        self.y = cp.empty(SHAPE, cp.float32)

    def kernel(self):
        raise NotImplementedError

    def start(self, image):
        self.source[...] = image
        self.x.set(self.source, stream=self.to_device)
        self.compute.wait_event(self.to_device.record())
        with self.compute:
            self.kernel()
        self.to_host.wait_event(self.compute.record())
        self.y.get(stream=self.to_host, out=self.target, blocking=False)

    def finish(self):
        self.compute.synchronize()
        return float(self.target.mean()), float(self.target.std())


class LocalContrast(Measure):
    def kernel(self):
        mean = 0.25 * (cp.roll(self.x, 1, 0) + cp.roll(self.x, -1, 0)
                       + cp.roll(self.x, 1, 1) + cp.roll(self.x, -1, 1))
        cp.divide(self.x - mean, mean + 1e-3, out=self.y)


class Entropy(Measure):
    def kernel(self):
        cp.multiply(-self.x, cp.log(self.x + 1e-6), out=self.y)


def main():
    rng = np.random.default_rng(61)
    measures = [LocalContrast(), Entropy()]
    for _ in range(15):
        image = rng.random(SHAPE, dtype=np.float32)
        for measure in measures:
            measure.start(image)
        print([measure.finish() for measure in measures])


if __name__ == "__main__":
    main()
