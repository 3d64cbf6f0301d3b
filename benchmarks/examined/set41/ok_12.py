"""Map on several CuPy streams, reduce on the null stream."""
import cupy as cp
import numpy as np

scale_rows = cp.RawKernel(r"""
extern "C" __global__
void scale_rows(const float* in, float* out, int cols, int rows, float k) {
    int c = blockDim.x * blockIdx.x + threadIdx.x;
    int r = blockIdx.y;
    if (c < cols && r < rows) out[r * cols + c] = in[r * cols + c] * k + (float)r;
}
""", "scale_rows")


class Mapper:
    def __init__(self, rows, cols):
        self.rows, self.cols = rows, cols
        self.stream = cp.cuda.Stream()
        self.source = cp.empty((rows, cols), dtype=cp.float32)
        self.target = cp.empty((rows, cols), dtype=cp.float32)

    def load(self, seed):
        self.source[...] = cp.random.default_rng(seed).random(
            (self.rows, self.cols), dtype=np.float32
        )

    def run(self, k):
        grid = ((self.cols + 255) // 256, self.rows)
        scale_rows(
            grid, (256, 1),
            (self.source, self.target, np.int32(self.cols), np.int32(self.rows), np.float32(k)),
            stream=self.stream,
        )


class MapReduce:
    def __init__(self, workers=4, rows=512, cols=4096):
        self.workers = [Mapper(rows, cols) for _ in range(workers)]
        self.total = cp.zeros((rows, cols), dtype=cp.float32)

    def iterate(self, seed):
        for i, w in enumerate(self.workers):
            w.load(seed * 100 + i)
        for i, w in enumerate(self.workers):
            w.run(1.0 / (i + 1))
        for w in self.workers:
            self.total += w.target
        return self.total

    def summary(self):
        return {
            "mean": float(self.total.mean()),
            "max": float(self.total.max()),
        }


class Report:
    def __init__(self):
        self.rows = []

    def add(self, step, job):
        if step % 5 == 4:
            self.rows.append((step, job.summary()))

    def dump(self):
        for step, row in self.rows:
            print(f"{step:4d} mean={row['mean']:.4f} max={row['max']:.4f}")


def main():
    job = MapReduce()
    report = Report()
    for step in range(20):
        job.iterate(step)
        report.add(step, job)
    report.dump()


if __name__ == "__main__":
    main()
