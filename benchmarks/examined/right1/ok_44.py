"""A two-branch filter captured once and replayed for each batch."""
import cupy as cp
import numpy as np

low_pass = cp.ElementwiseKernel(
    "raw float32 x, int32 n", "float32 y",
    "y = 0.5f * (x[i] + x[i == 0 ? 0 : i - 1])", "low_pass")
high_pass = cp.ElementwiseKernel(
    "raw float32 x, int32 n", "float32 y",
    "y = 0.5f * (x[i] - x[i == 0 ? 0 : i - 1])", "high_pass")
blend = cp.ElementwiseKernel(
    "float32 lo, float32 hi", "float32 y", "y = lo + 0.25f * hi", "blend")


class TwoBranchFilter:
    def __init__(self, n):
        self.n = np.int32(n)
        self.main = cp.cuda.Stream(non_blocking=True)
        self.side = cp.cuda.Stream(non_blocking=True)
        with self.main:
            self.x = cp.zeros(n, cp.float32)
            self.lo = cp.empty(n, cp.float32)
            self.hi = cp.empty(n, cp.float32)
            self.y = cp.empty(n, cp.float32)
            self._body()
            self.main.synchronize()
            self.main.begin_capture()
            self._body()
            self.graph = self.main.end_capture()

    def _body(self):
        fork = self.main.record()
        self.side.wait_event(fork)
        with self.side:
            high_pass(self.x, self.n, self.hi)
            join = self.side.record()
        low_pass(self.x, self.n, self.lo)
        self.main.wait_event(join)
        blend(self.lo, self.hi, self.y)

    def __call__(self, batch):
        with self.main:
            self.x.set(batch, stream=self.main)
            self.graph.launch(self.main)
            return self.y.copy()

    def gather(self, results):
        with self.main:
            return cp.asnumpy(cp.stack(results))


def main():
    n = 1 << 16
    filt = TwoBranchFilter(n)
    rng = np.random.default_rng(3)
    results = [filt(rng.standard_normal(n).astype(np.float32)) for _ in range(16)]
    return filt.gather(results).std(axis=1)


if __name__ == "__main__":
    print(main())
