"""Tile statistics on worker streams, merged on the default stream (CuPy)."""
import cupy as cp
import numpy as np

_MOMENTS = cp.RawKernel(
    r"""
extern "C" __global__
void moments(const float* x, double* out, int n) {
    __shared__ double s[256];
    __shared__ double q[256];
    double a = 0.0, b = 0.0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        double v = x[i];
        a += v;
        b += v * v;
    }
    s[threadIdx.x] = a;
    q[threadIdx.x] = b;
    __syncthreads();
    for (int w = 128; w > 0; w >>= 1) {
        if (threadIdx.x < w) {
            s[threadIdx.x] += s[threadIdx.x + w];
            q[threadIdx.x] += q[threadIdx.x + w];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        out[0] = s[0];
        out[1] = q[0];
    }
}
""",
    "moments",
)


class TileMoments:
    def __init__(self, tiles, tile_size, workers=4):
        self.tiles = tiles
        self.tile_size = tile_size
        self.streams = [cp.cuda.Stream() for _ in range(workers)]
        with cp.cuda.Stream.null:
            self.data = cp.zeros((tiles, tile_size), dtype=cp.float32)
            self.partial = cp.zeros((tiles, 2), dtype=cp.float64)

    def load(self, array):
        array = np.ascontiguousarray(array, dtype=np.float32)
        with cp.cuda.Stream.null:
            self.data[...] = cp.asarray(array.reshape(self.tiles, self.tile_size))

    def scale(self, factor):
        with cp.cuda.Stream.null:
            cp.multiply(self.data, cp.float32(factor), out=self.data)

    def compute(self):
        for tile in range(self.tiles):
            stream = self.streams[tile % len(self.streams)]
            with stream:
                _MOMENTS(
                    (1,),
                    (256,),
                    (self.data[tile], self.partial[tile], np.int32(self.tile_size)),
                )
        with cp.cuda.Stream.null:
            total = cp.asnumpy(self.partial.sum(axis=0))
        count = self.tiles * self.tile_size
        mean = total[0] / count
        var = total[1] / count - mean * mean
        return float(mean), float(var)


def summarise(arrays, tiles=32, tile_size=1 << 14):
    engine = TileMoments(tiles, tile_size)
    rows = []
    for array in arrays:
        engine.load(array)
        before = engine.compute()
        engine.scale(0.5)
        rows.append((before, engine.compute()))
    return rows
