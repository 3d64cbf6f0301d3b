"""Tile statistics: tiles are made on one stream and measured on another."""
import cupy as cp

moments = cp.RawKernel(r"""
extern "C" __global__ void moments(const float* x, int n, double* out) {
    double s = 0.0, q = 0.0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        double v = x[i];
        s += v;
        q += v * v;
    }
    atomicAdd(out, s);
    atomicAdd(out + 1, q);
}
""", "moments")

TILE = 1 << 22


class TileStatistics:
    def __init__(self, tiles):
        self.generate = cp.cuda.Stream(non_blocking=True)
        self.measure = cp.cuda.Stream(non_blocking=True)
        self.made = cp.cuda.Event(disable_timing=True)
        with self.measure:
            self.table = cp.zeros((tiles, 2), cp.float64)

    def tile(self, index):
        with self.generate:
            phase = cp.arange(TILE, dtype=cp.float32)
            phase *= 1e-3 * (index + 1)
            tile = cp.sin(phase)
            self.made.record(self.generate)
        return tile

    def process(self, index):
        tile = self.tile(index)
        self.measure.wait_event(self.made)
        with self.measure:
            moments((256,), (256,), (tile, cp.int32(TILE), self.table[index]))

    def finish(self):
        with self.measure:
            return self.table.get()


def main(tiles=48):
    stats = TileStatistics(tiles)
    for index in range(tiles):
        stats.process(index)
    table = stats.finish()
    print(table[:, 0] / TILE)


if __name__ == "__main__":
    main()
