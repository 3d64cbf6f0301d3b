from graphlib import TopologicalSorter

import cupy as cp
import numpy as np


class Task:
    def __init__(self, name, fn, *parents):
        self.name, self.fn, self.parents = name, fn, parents
        self.value = self.done = None

    def execute(self, stream):
        for p in self.parents:
            stream.wait_event(p.done)
        with stream:
            self.value = self.fn(*(p.value for p in self.parents))
        self.done = stream.record()


class Executor:
    def __init__(self, width):
        self.streams = [cp.cuda.Stream(non_blocking=True) for _ in range(width)]
        self.next = 0

    def _stream(self):
        stream = self.streams[self.next % len(self.streams)]
        self.next += 1
        return stream

    def run(self, *targets):
        graph, stack = {}, list(targets)
        while stack:
            task = stack.pop()
            if task not in graph:
                graph[task] = task.parents
                stack.extend(task.parents)
        for task in TopologicalSorter(graph).static_order():
            task.execute(self._stream())
        for stream in self.streams:
            stream.synchronize()
        return [cp.asnumpy(t.value) for t in targets]


def build(host):
    load = Task("load", lambda: cp.asarray(host))
    center = Task("center", lambda a: a - a.mean(axis=0), load)
    spread = Task("spread", lambda a: a.std(axis=0) + 1e-6, load)
    white = Task("white", lambda c, s: c / s, center, spread)
    cov = Task("cov", lambda w: w.T @ w / w.shape[0], white)
    top = Task("top", lambda c: cp.linalg.eigvalsh(c)[-4:], cov)
    score = Task("score", lambda w, c: cp.abs(w @ c).max(axis=0), white, cov)
    return top, score


def main():
    executor = Executor(3)
    host = np.random.default_rng(0).normal(size=(1 << 14, 128))
    sums = []
    for _ in range(5):
        top, score = build(host)
        a, b = executor.run(top, score)
        sums.append(float(a.sum() + b.sum()))
    return sums


if __name__ == "__main__":
    print(main())
