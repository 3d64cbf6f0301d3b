import threading

import cupy as cp
import numpy as np

_decay = cp.ElementwiseKernel("T x, T k", "T y", "y = y + k * (x - y)", "relax")


class ProgressBoard:
    def __init__(self):
        self._lock = threading.Lock()
        self.done = 0
        self.listeners = []

    def tick(self, tag):
        with self._lock:
            self.done += 1
            listeners = list(self.listeners)
        for fn in listeners:
            fn(tag)


class GraphPipeline:
    """Records a chain of stages with a host notification behind each of them."""

    def __init__(self, shape, n_stages, board):
        self.board = board
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.target = cp.zeros(shape, dtype=cp.float32)
            self.state = [cp.zeros(shape, dtype=cp.float32) for _ in range(n_stages)]
        self.graph = None

    def _stage(self, i):
        src = self.target if i == 0 else self.state[i - 1]
        _decay(src, np.float32(0.1), self.state[i])
        self.stream.launch_host_func(self.board.tick, i)

    def _warmup(self):
        with self.stream:
            for i in range(len(self.state)):
                src = self.target if i == 0 else self.state[i - 1]
                _decay(src, np.float32(0.0), self.state[i])
        self.stream.synchronize()

    def record(self):
        self._warmup()
        with self.stream:
            self.stream.begin_capture()
            for i in range(len(self.state)):
                self._stage(i)
            self.graph = self.stream.end_capture()
        return self

    def run(self, target, iterations):
        self.target.set(target, stream=self.stream)
        for _ in range(iterations):
            self.graph.launch(self.stream)
        self.stream.synchronize()
        return self.state[-1].get(stream=self.stream)


def main(n=1 << 20, iterations=100):
    board = ProgressBoard()
    board.listeners.append(lambda tag: None)
    pipeline = GraphPipeline((n,), 4, board).record()
    result = pipeline.run(np.linspace(0, 1, n, dtype=np.float32), iterations)
    assert board.done == 4 * iterations
    return result


if __name__ == "__main__":
    print(main().mean())
