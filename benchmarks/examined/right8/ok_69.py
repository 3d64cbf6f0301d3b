"""Polling harvester: results are picked up once their event reports done."""
import time

import cupy as cp
import cupyx
import numpy as np


class Job:
    def __init__(self, n):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.work = cp.empty(n, cp.float32)
        self.host = cupyx.empty_pinned(1, np.float32)
        self.event = None
        self.name = None

    def start(self, name, seed):
        self.name = name
        with self.stream:
            self.work[...] = cp.arange(self.work.size, dtype=cp.float32)
            cp.sin(self.work * seed, out=self.work)
            best = self.work.max().reshape(1)
            best.get(stream=self.stream, out=self.host, blocking=False)
        self.event = self.stream.record()

    @property
    def finished(self):
        return self.event is not None and self.event.done


class Harvester:
    def __init__(self, slots, n):
        self.idle = [Job(n) for _ in range(slots)]
        self.busy = []
        self.results = {}

    def _harvest(self):
        still = []
        for job in self.busy:
            if job.finished:
                self.results[job.name] = float(job.host[0])
                job.event = None
                self.idle.append(job)
            else:
                still.append(job)
        self.busy = still

    def submit(self, name, seed):
        while not self.idle:
            self._harvest()
            time.sleep(1e-4)
        job = self.idle.pop()
        job.start(name, seed)
        self.busy.append(job)

    def drain(self):
        while self.busy:
            self._harvest()
            time.sleep(1e-4)
        return self.results


if __name__ == "__main__":
    h = Harvester(3, 1 << 20)
    for k in range(12):
        h.submit(f"job{k}", 0.001 * (k + 1))
    print(h.drain())
