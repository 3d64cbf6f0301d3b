"""Message-driven chunks: kernels of a chunk follow the messages it depends on, events are pooled."""
from collections import deque

import cupy as cp


class EventPool:
    def __init__(self, capacity):
        self.idle = deque(cp.cuda.Event(disable_timing=True) for _ in range(capacity))
        self.busy = deque()

    def record(self, stream):
        self._reclaim()
        event = self.idle.popleft() if self.idle else cp.cuda.Event(disable_timing=True)
        event.record(stream)
        return event

    def release(self, event):
        self.busy.append(event)

    def _reclaim(self):
        for _ in range(len(self.busy)):
            event = self.busy.popleft()
            if event.done:
                self.idle.append(event)
            else:
                self.busy.append(event)


class Chunk:
    def __init__(self, index, n, pool):
        self.index = index
        self.pool = pool
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.cur = cp.full(n, float(index), cp.float64)
            self.new = cp.empty_like(self.cur)

    def compute(self, left, right):
        with self.stream:
            self.new[1:-1] = 0.5 * self.cur[1:-1] + 0.25 * (self.cur[:-2] + self.cur[2:])
            self.new[0] = 0.5 * self.cur[0] + 0.25 * (left.cur[-1] + self.cur[1])
            self.new[-1] = 0.5 * self.cur[-1] + 0.25 * (self.cur[-2] + right.cur[0])

    def swap(self):
        self.cur, self.new = self.new, self.cur


class Scheduler:
    def __init__(self, n_chunks, n):
        self.pool = EventPool(n_chunks)
        self.chunks = [Chunk(i, n, self.pool) for i in range(n_chunks)]

    def _neighbours(self, i):
        m = len(self.chunks)
        return self.chunks[(i - 1) % m], self.chunks[(i + 1) % m]

    def step(self):
        ready = [self.pool.record(c.stream) for c in self.chunks]
        m = len(self.chunks)
        for i, chunk in enumerate(self.chunks):
            chunk.stream.wait_event(ready[(i - 1) % m])
            chunk.stream.wait_event(ready[(i + 1) % m])
            chunk.compute(*self._neighbours(i))
        for event in ready:
            self.pool.release(event)
        for chunk in self.chunks:
            chunk.swap()

    def total(self):
        for chunk in self.chunks:
            chunk.stream.synchronize()
        return sum(float(c.cur.sum()) for c in self.chunks)


def main():
    sched = Scheduler(6, 1 << 16)
    before = sched.total()
    for _ in range(200):
        sched.step()
    assert abs(sched.total() - before) < 1e-3 * max(1.0, abs(before))


if __name__ == "__main__":
    main()
