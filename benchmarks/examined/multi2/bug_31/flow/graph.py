import cupy as cp

from .stage import REGISTRY


class Flow:
    def __init__(self, shape, steps):
        self.stages = []
        for step in steps:
            options = dict(step)
            kind = options.pop("kind")
            self.stages.append(REGISTRY[kind](shape, **options))
        for a, b in zip(self.stages, self.stages[1:]):
            a.downstream, b.upstream = b, a
        cp.cuda.Device().synchronize()

    def __call__(self, x):
        for stage in self.stages:
            x = stage(x)
        return x

    def finish(self):
        for stage in self.stages:
            stage.stream.synchronize()
        return cp.asnumpy(self.stages[-1].out)
