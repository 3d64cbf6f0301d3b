from collections import deque
from contextlib import contextmanager

import cupy as cp


class EventPool:
    """Recycles events; one goes back when the host has seen it complete."""

    def __init__(self):
        self._idle = []
        self._out = deque()

    def record(self, stream):
        while self._out and self._out[0].done:
            self._idle.append(self._out.popleft())
        event = self._idle.pop() if self._idle else cp.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    def retire(self, event):
        self._out.append(event)


class Field:
    """An array with its last write and the reads since."""

    def __init__(self, shape):
        self.data = cp.zeros(shape, cp.float32)
        self.write = None
        self.reads = []


class Scheduler:
    def __init__(self, lanes):
        self.lanes = [cp.cuda.Stream(non_blocking=True) for _ in range(lanes)]
        self.pool = EventPool()

    @contextmanager
    def task(self, lane, reads=(), writes=()):
        stream = self.lanes[lane]
        for f in (*reads, *writes):
            if f.write is not None:
                stream.wait_event(f.write)
        for f in writes:
            for event in f.reads:
                stream.wait_event(event)
        with stream:
            yield
        for f in reads:
            f.reads.append(self.pool.record(stream))
        for f in writes:
            for old in (f.write, *f.reads):
                if old is not None:
                    self.pool.retire(old)
            f.write, f.reads = self.pool.record(stream), []


def main(rounds=20):
    a, b, c = Field((512, 512)), Field((512, 512)), Field((512, 512))
    cp.cuda.Stream.null.synchronize()
    sched = Scheduler(3)
    for k in range(rounds):
        with sched.task(0, writes=[a]):
            a.data += 1.0
        with sched.task(1, reads=[a], writes=[b]):
            b.data[...] = a.data * 0.5
        with sched.task(2, reads=[a], writes=[c]):
            c.data += a.data
        with sched.task(k % 2, reads=[b], writes=[c]):
            c.data -= b.data
    with sched.task(0, reads=[c]):
        return float(c.data.mean())


if __name__ == "__main__":
    print(main())
