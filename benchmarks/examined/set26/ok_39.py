"""Three-way fork/join captured once and replayed on new input."""
import numpy as np
import cupy as cp

_poly = cp.ElementwiseKernel(
    'float32 x, float32 a, float32 b', 'float32 y', 'y = a * x * x + b', 'poly')


class ForkJoinGraph:
    def __init__(self, n, coefficients):
        self.origin = cp.cuda.Stream(non_blocking=True)
        self.forks = [cp.cuda.Stream(non_blocking=True)
                      for _ in coefficients[1:]]
        self.coefficients = coefficients
        with self.origin:
            self.x = cp.zeros((n,), dtype=cp.float32)
            self.parts = [cp.zeros((n,), dtype=cp.float32) for _ in coefficients]
            self.total = cp.zeros((n,), dtype=cp.float32)
            for out, (a, b) in zip(self.parts, coefficients):
                _poly(self.x, cp.float32(a), cp.float32(b), out)
            cp.add(self.parts[0], self.parts[1], out=self.total)
        self.origin.synchronize()
        self.fork_event = cp.cuda.Event(disable_timing=True)
        self.join_events = [cp.cuda.Event(disable_timing=True) for _ in self.forks]
        self.graph = self._capture()

    def _branch(self, k, stream):
        a, b = self.coefficients[k]
        with stream:
            _poly(self.x, cp.float32(a), cp.float32(b), self.parts[k])

    def _capture(self):
        self.origin.begin_capture()
        self.fork_event.record(self.origin)
        for k, (stream, joined) in enumerate(zip(self.forks, self.join_events), 1):
            stream.wait_event(self.fork_event)
            self._branch(k, stream)
            joined.record(stream)
        self._branch(0, self.origin)
        for joined in self.join_events:
            self.origin.wait_event(joined)
        with self.origin:
            cp.copyto(self.total, self.parts[0])
            for part in self.parts[1:]:
                cp.add(self.total, part, out=self.total)
        return self.origin.end_capture()

    def __call__(self, values):
        self.x.set(values, stream=self.origin)
        self.graph.launch(self.origin)
        out = cp.asnumpy(self.total, stream=self.origin)
        self.origin.synchronize()
        return out


def main(n=1 << 20):
    coeffs = [(1.0, 0.0), (2.0, 1.0), (3.0, 2.0)]
    graph = ForkJoinGraph(n, coeffs)
    for step in range(10):
        x = np.full((n,), step, np.float32)
        expected = sum(a * step * step + b for a, b in coeffs)
        assert (graph(x) == expected).all()


if __name__ == "__main__":
    main()
