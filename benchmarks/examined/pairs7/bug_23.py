"""Seismic trace processing; a decorator puts every step on the stream of its lane."""
import functools

import cupy as cp
import numpy as np

TRACES, SAMPLES = 512, 4096


def on_lane(lane, needs=()):
    def decorate(method):
        @functools.wraps(method)
        def inner(self, *args, **kwargs):
            stream = self.lanes[lane]
            for need in needs:
                stream.wait_event(self.events[need])
            self.events[lane].record(stream)
            with stream:
                return method(self, *args, **kwargs)
        return inner
    return decorate


class TraceFlow:
    def __init__(self):
        names = ("gain", "stack")
        self.lanes = {n: cp.cuda.Stream(non_blocking=True) for n in names}
        self.events = {n: cp.cuda.Event(disable_timing=True) for n in names}
        self.gather = cp.empty((TRACES, SAMPLES), cp.float32)
        with self.lanes["stack"]:
            self.sum = cp.zeros(SAMPLES, cp.float32)

    @on_lane("gain", needs=("stack",))
    def gain(self, gather):
        raw = cp.asarray(gather)
        rms = cp.sqrt((raw * raw).mean(axis=1, keepdims=True))
        cp.divide(raw, rms, out=self.gather)

    @on_lane("stack", needs=("gain",))
    def stack(self):
        self.sum += self.gather.mean(axis=0)

    @on_lane("stack")
    def result(self):
        return self.sum.get()


def main():
    rng = np.random.default_rng(31)
    flow = TraceFlow()
    for _ in range(30):
        flow.gain(rng.standard_normal((TRACES, SAMPLES), dtype=np.float32))
        flow.stack()
    print(flow.result()[:4])


if __name__ == "__main__":
    main()
