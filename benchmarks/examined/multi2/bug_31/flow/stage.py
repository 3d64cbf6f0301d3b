import cupy as cp

REGISTRY = {}


def register(name):
    def deco(cls):
        REGISTRY[name] = cls
        cls.kind = name
        return cls
    return deco


class Stage:
    """One step of a flow, with a stream and an output plane of its own."""

    kind = "?"

    def __init__(self, shape, dtype=cp.float32, **options):
        self.options = options
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.out = cp.zeros(shape, dtype=dtype)
        self.done = cp.cuda.Event(disable_timing=True)
        self.upstream = None
        self.downstream = None

    def run(self, x):
        raise NotImplementedError

    def settle(self):
        """Last touch on self.out, for stages that need one."""

    def __call__(self, x):
        if self.upstream is not None:
            self.stream.wait_event(self.upstream.done)
        if self.downstream is not None:
            self.stream.wait_event(self.downstream.done)
        with self.stream:
            self.run(x)
            self.done.record(self.stream)
            self.settle()
        return self.out
