import heapq
import itertools
import time
from dataclasses import dataclass, field

import cupy as cp
import cupyx
import numpy as np


@dataclass(order=True)
class Job:
    priority: int
    serial: int
    side: int = field(compare=False)


class Worker:
    def __init__(self, limit):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.finished = cp.cuda.Event(disable_timing=True)
        self.answer = cupyx.zeros_pinned((1,), np.float64)
        self.job = None
        with self.stream:
            self.rng = cp.random.RandomState(limit)

    def start(self, job):
        self.job = job
        with self.stream:
            a = self.rng.standard_normal((job.side, job.side))
            value = cp.abs(a @ a.T).max().reshape(1)
            value.get(stream=self.stream, out=self.answer, blocking=False)
            self.finished.record(self.stream)

    def poll(self):
        if self.job is None or not self.finished.done:
            return None
        job, self.job = self.job, None
        return job, float(self.answer[0])


class Scheduler:
    """Hands jobs by priority to whichever worker has finished."""

    def __init__(self, workers):
        self.workers = [Worker(k) for k in range(workers)]
        self.heap = []
        self.serial = itertools.count()

    def add(self, priority, side):
        heapq.heappush(self.heap, Job(priority, next(self.serial), side))

    def run(self):
        while self.heap or any(w.job for w in self.workers):
            moved = False
            for w in self.workers:
                out = w.poll()
                if out is not None:
                    moved = True
                    yield out
                if w.job is None and self.heap:
                    moved = True
                    w.start(heapq.heappop(self.heap))
            if not moved:
                time.sleep(1e-4)


def main():
    sched = Scheduler(3)
    for k in range(30):
        sched.add(k % 5, 256 + 64 * (k % 7))
    for job, value in sched.run():
        print(job.priority, job.side, round(value, 3))


if __name__ == "__main__":
    main()
