import abc

import cupy as cp
import numpy as np


class Stage(abc.ABC):
    """Base of all stages: own stream, input from the upstream stage, output slots."""

    depth = 2

    def __init__(self, upstream=None):
        self.upstream = upstream
        self.downstream = None
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.outputs = [None] * self.depth
        self.written = [None] * self.depth
        self.released = [None] * self.depth
        if upstream is not None:
            upstream.downstream = self

    @abc.abstractmethod
    def apply(self, x, out):
        ...

    @abc.abstractmethod
    def shape(self):
        ...

    def run(self, tick, source=None):
        slot = tick % self.depth
        with self.stream:
            if self.outputs[slot] is None:
                self.outputs[slot] = cp.empty(self.shape(), cp.float32)
            if self.released[slot] is not None:
                self.stream.wait_event(self.released[slot])
            if self.upstream is None:
                x = source
            else:
                self.stream.wait_event(self.upstream.written[slot])
                x = self.upstream.outputs[slot]
            self.apply(x, self.outputs[slot])
            done = self.stream.record()
        self.written[slot] = done
        if self.upstream is not None:
            self.upstream.released[slot] = done


class Load(Stage):
    def shape(self):
        return (256, 256)

    def apply(self, x, out):
        out.set(x)


class Gradient(Stage):
    def shape(self):
        return (256, 256)

    def apply(self, x, out):
        out[...] = 0
        out[1:] = x[1:] - x[:-1]


class Energy(Stage):
    def __init__(self, upstream):
        super().__init__(upstream)
        with self.stream:
            self.total = cp.zeros((), cp.float64)

    def shape(self):
        return (256,)

    def apply(self, x, out):
        cp.sum(x * x, axis=1, out=out)
        self.total += out.sum(dtype=cp.float64)

    def value(self):
        with self.stream:
            return float(self.total)


if __name__ == "__main__":
    load = Load()
    grad = Gradient(load)
    energy = Energy(grad)
    rng = np.random.default_rng(0)
    for tick in range(20):
        load.run(tick, rng.random((256, 256), dtype=np.float32))
        grad.run(tick)
        energy.run(tick)
    print(energy.value())
