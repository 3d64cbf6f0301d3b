"""What all stages share: a name, an execution stream, a launch hook."""
import math

from numba import cuda

REGISTRY = {}


def register(cls):
    REGISTRY[cls.name] = cls
    return cls


def make(name, **options):
    return REGISTRY[name](**options)


class Stage:
    name = "?"
    threads = (32, 8)

    def __init__(self):
        self.stream = cuda.stream()
        self.launches = 0

    def grid(self, shape):
        return (math.ceil(shape[1] / self.threads[0]),
                math.ceil(shape[0] / self.threads[1]))

    def run(self, src, dst):
        self.launch(self.grid(src.shape), src, dst)
        self.launches += 1
        return dst

    def launch(self, grid, src, dst):
        raise NotImplementedError

    def __repr__(self):
        return f"<{self.name} launched {self.launches} times>"


def describe(stages):
    return " -> ".join(s.name for s in stages)


def known():
    return sorted(REGISTRY)
