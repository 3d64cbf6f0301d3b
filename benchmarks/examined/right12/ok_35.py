import cupy as cp
import cupyx
import numpy as np

_step = cp.RawKernel(r"""
extern "C" __global__
void heat_step(const float* src, float* dst, int n, float k) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= n) return;
    int i = y * n + x;
    if (x == 0 || y == 0 || x == n - 1 || y == n - 1) { dst[i] = src[i]; return; }
    float c = src[i];
    dst[i] = c + k * (src[i - 1] + src[i + 1] + src[i - n] + src[i + n] - 4.0f * c);
}
""", "heat_step")


class GraphedHeat:
    """Advances a plate by `steps` per launch of one captured graph."""

    def __init__(self, size, steps, k=0.2):
        if steps % 2:
            raise ValueError("steps must be even")
        self.size = size
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.host = cupyx.empty_pinned((size, size), dtype=np.float32)
        with self.stream:
            self.a = cp.zeros((size, size), dtype=cp.float32)
            self.b = cp.zeros((size, size), dtype=cp.float32)
        _step.compile()
        block = (16, 16)
        grid = ((size + 15) // 16, (size + 15) // 16)
        n, k = np.int32(size), np.float32(k)
        with self.stream:
            self.stream.begin_capture()
            for _ in range(steps // 2):
                _step(grid, block, (self.a, self.b, n, k))
                _step(grid, block, (self.b, self.a, n, k))
            self.graph = self.stream.end_capture()

    def set(self, plate):
        self.stream.synchronize()
        self.host[...] = plate
        self.a.set(self.host, stream=self.stream)

    def advance(self, rounds=1):
        for _ in range(rounds):
            self.graph.launch(self.stream)

    def heat(self, row, column, value):
        with self.stream:
            self.a[row, column] = value

    def get(self):
        self.a.get(stream=self.stream, out=self.host)
        self.stream.synchronize()
        return self.host.copy()

    def mean(self):
        with self.stream:
            return float(self.a.mean())


def main():
    size = 256
    plate = np.zeros((size, size), dtype=np.float32)
    plate[100:150, 100:150] = 100.0
    heat = GraphedHeat(size, 20)
    print("empty", heat.mean())
    heat.set(plate)
    heat.advance(10)
    first = heat.get()
    heat.set(first)
    heat.heat(5, 5, 1000.0)
    heat.advance()
    heat.set(plate)
    heat.set(first)
    heat.advance(3)
    print(first.sum() / plate.sum(), heat.mean(), heat.get().max())


if __name__ == "__main__":
    main()
