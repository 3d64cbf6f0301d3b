import pycuda.driver as drv

from memory import Bindings


class Worker:
    """One request at a time: own stream, own arrays, own program."""

    def __init__(self, name, program, shape):
        self.name = name
        self.program = program
        self.bind = Bindings(shape)
        self.stream = drv.Stream()
        self.busy = False

    def begin(self, sample):
        assert not self.busy
        self.bind.x.host[...] = sample
        self.bind.x.up(self.stream)
        self.program.enqueue(self.bind, self.stream)
        self.bind.y.down(self.stream)
        self.busy = True

    def end(self):
        self.stream.synchronize()
        self.busy = False
        return self.bind.y.host.copy()


class Crew:
    def __init__(self, workers):
        self.workers = list(workers)
        self.turn = 0

    def _next(self):
        w = self.workers[self.turn % len(self.workers)]
        self.turn += 1
        return w

    def map(self, samples):
        """Results in order; as many requests in flight as there are workers."""
        order = []
        for s in samples:
            w = self._next()
            if w.busy:
                yield w.end()
                order.remove(w)
            w.begin(s)
            order.append(w)
        for w in order:
            yield w.end()
