from contextlib import contextmanager

import pycuda.driver as drv


class Session:
    """Groups asynchronous work; leaving turn() ends it."""

    def __init__(self, buffers, inputs, outputs):
        self.buffers = buffers
        self.inputs = inputs
        self.outputs = outputs
        self.stream = drv.Stream()
        self.turns = 0

    @property
    def traffic(self):
        """Bytes moved so far, both ways."""
        per = sum(self.buffers[n].host.nbytes for n in (*self.inputs, *self.outputs))
        return per * self.turns

    @contextmanager
    def turn(self):
        self.buffers.up(self.inputs, self.stream)
        try:
            yield self.stream
            self.buffers.down(self.outputs, self.stream)
        finally:
            self.stream.synchronize()
            self.turns += 1
