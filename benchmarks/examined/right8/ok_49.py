"""A small dependency tracker: tasks name what they read and write."""
import itertools

import cupy as cp


class Tracker:
    def __init__(self, lanes=3):
        self._lanes = itertools.cycle([cp.cuda.Stream(non_blocking=True) for _ in range(lanes)])
        self._writer = {}
        self._readers = {}

    def _wait(self, stream, events):
        for ev in events:
            if ev is not None:
                stream.wait_event(ev)

    def submit(self, fn, reads=(), writes=()):
        stream = next(self._lanes)
        for name in reads:
            self._wait(stream, [self._writer.get(name)])
        for name in writes:
            self._wait(stream, [self._writer.get(name)])
            self._wait(stream, self._readers.get(name, ()))
        with stream:
            fn()
        done = stream.record()
        for name in reads:
            self._readers.setdefault(name, []).append(done)
        for name in writes:
            self._writer[name] = done
            self._readers[name] = []

    def finish(self, *names):
        for name in names:
            self._writer[name].synchronize()


def gram_schmidt(n, k):
    cols = {i: cp.random.rand(n) for i in range(k)}
    cp.cuda.Device().synchronize()
    tr = Tracker()

    def normalize(i):
        def run():
            cols[i] /= cp.linalg.norm(cols[i])
        return run

    def project(i, j):
        def run():
            cols[j] -= (cols[i] * cols[j]).sum() * cols[i]
        return run

    for i in range(k):
        tr.submit(normalize(i), writes=[i])
        for j in range(i + 1, k):
            tr.submit(project(i, j), reads=[i], writes=[j])
    tr.finish(*range(k))
    q = cp.stack([cols[i] for i in range(k)])
    return float(cp.abs(q @ q.T - cp.eye(k)).max())


if __name__ == "__main__":
    print(gram_schmidt(1 << 14, 12))
