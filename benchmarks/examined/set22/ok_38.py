"""Host stage inside a stream: download, normalise with NumPy, upload again."""
import cupy as cp
import cupyx
import numpy as np


class HostStage:
    """A function on a page-locked block, run in stream order."""

    def __init__(self, shape, dtype, fn):
        self.block = cupyx.empty_pinned(shape, dtype)
        self.fn = fn
        self.calls = 0
        self.failed = None

    def _run(self, _):
        try:
            self.fn(self.block)
            self.calls += 1
        except Exception as exc:
            self.failed = exc

    def enqueue(self, data, stream):
        data.get(stream=stream, out=self.block, blocking=False)
        stream.launch_host_func(self._run, None)
        data.set(self.block, stream=stream)


def whiten(block):
    block -= np.median(block, axis=1, keepdims=True)
    block /= np.maximum(np.abs(block).max(axis=1, keepdims=True), 1e-6)


class Correlator:
    def __init__(self, antennas, samples):
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.stage = HostStage((antennas, samples), np.float32, whiten)
        self.rng = cp.random.RandomState(5)
        with self.stream:
            self.visibilities = cp.zeros((antennas, antennas), cp.float32)

    def push(self):
        with self.stream:
            block = self.rng.standard_normal(self.stage.block.shape).astype(cp.float32)
            self.stage.enqueue(block, self.stream)
            self.visibilities += block @ block.T

    def finish(self):
        self.stream.synchronize()
        if self.stage.failed is not None:
            raise self.stage.failed
        return self.visibilities.get(stream=self.stream)


def main():
    corr = Correlator(64, 8192)
    for _ in range(12):
        corr.push()
    vis = corr.finish()
    assert corr.stage.calls == 12
    assert np.allclose(vis, vis.T, atol=1e-1)


if __name__ == "__main__":
    main()
