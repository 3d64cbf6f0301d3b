"""Spin chain trajectories: a captured step is replayed, observables leave on a side stream."""
import cupy as cp
import cupyx
import numpy as np

N = 1 << 22

rotate = cp.RawKernel(r"""
extern "C" __global__ void rotate(const float* s, float* t, int n, float dt) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) t[i] = s[i] + dt * sinf(s[(i + 1) % n] - s[i]) + dt * sinf(s[(i + n - 1) % n] - s[i]);
}
""", "rotate")


class SpinChain:
    def __init__(self, seed):
        self.compute = cp.cuda.Stream(non_blocking=True)
        self.output = cp.cuda.Stream(non_blocking=True)
        self.stepped = cp.cuda.Event(disable_timing=True)
        self.pages = [cupyx.empty_pinned(N, np.float32) for _ in range(2)]
        self.landed = [cp.cuda.Event(disable_timing=True) for _ in range(2)]
        with self.compute:
            self.s = cp.asarray(np.random.default_rng(seed).uniform(0, 6.28, N).astype(np.float32))
            self.t = cp.empty_like(self.s)
            rotate((N // 256,), (256,), (self.s, self.t, np.int32(N), np.float32(0)))
            self.compute.synchronize()
            self.compute.begin_capture()
            for src, dst in ((self.s, self.t), (self.t, self.s)) * 5:
                rotate((N // 256,), (256,), (src, dst, np.int32(N), np.float32(0.05)))
            self.graph = self.compute.end_capture()

    def step(self, k):
        self.graph.launch(self.compute)
        self.stepped.record(self.compute)
        self.output.wait_event(self.stepped)
        self.landed[k % 2].synchronize()
        self.s.get(stream=self.output, out=self.pages[k % 2], blocking=False)
        self.landed[k % 2].record(self.output)

    def order(self, k):
        self.landed[k % 2].synchronize()
        page = self.pages[k % 2]
        return float(np.hypot(np.cos(page).mean(), np.sin(page).mean()))


def main(steps=60):
    chain = SpinChain(53)
    values = []
    for k in range(steps):
        chain.step(k)
        if k:
            values.append(chain.order(k - 1))
    print(values[-3:])


if __name__ == "__main__":
    main()
