"""Deconvolution step captured once as a graph, run for many observations."""
import cupy as cp
import numpy as np

N = 1 << 20

ratio = cp.RawKernel(r"""
extern "C" __global__ void ratio(const float* data, const float* model, float* r, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) r[i] = data[i] / fmaxf(model[i], 1e-6f);
}
""", "ratio")

update = cp.RawKernel(r"""
extern "C" __global__ void update(float* model, const float* r, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) model[i] *= 0.5f * r[i] + 0.25f * (r[max(i - 1, 0)] + r[min(i + 1, n - 1)]);
}
""", "update")

GRID, BLOCK = (N // 256,), (256,)


class Deconvolver:
    def __init__(self):
        self.stream = cp.cuda.Stream(non_blocking=True)
        with self.stream:
            self.data = cp.ones(N, cp.float32)
            self.model = cp.ones(N, cp.float32)
            self._iterate(1)
        self.stream.synchronize()
        self.graph = self._capture()

    def _iterate(self, rounds):
        r = cp.empty(N, cp.float32)
        for _ in range(rounds):
            ratio(GRID, BLOCK, (self.data, self.model, r, np.int32(N)))
            update(GRID, BLOCK, (self.model, r, np.int32(N)))

    def _capture(self):
        with self.stream:
            self.stream.begin_capture()
            self._iterate(30)
            return self.stream.end_capture()

    def run(self, observation):
        with self.stream:
            fresh = cp.asarray(observation)
            scale = fresh / fresh.mean()
            self.data[...] = scale
            self.model.fill(1.0)
            self.graph.launch(self.stream)
            self.model *= fresh.mean() / scale.mean()
            return self.model.get(), scale.get()


def main():
    rng = np.random.default_rng(12)
    solver = Deconvolver()
    for _ in range(10):
        model, scale = solver.run(rng.gamma(2.0, 1.0, N).astype(np.float32))
        print(model.mean(), scale.std())


if __name__ == "__main__":
    main()
