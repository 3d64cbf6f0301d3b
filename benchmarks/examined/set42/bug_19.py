"""Tiled image filter on CuPy's stream-ordered allocator: prepare and filter streams."""
import cupy as cp
import numpy as np

sharpen = cp.RawKernel(r"""
extern "C" __global__
void sharpen(const float* src, float* dst, int h, int w, int rounds) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= w - 1 || y >= h - 1) return;
    float acc = 0.f;
    for (int r = 0; r < rounds; ++r) {
        acc += 5.f * src[y * w + x] - src[y * w + x - 1] - src[y * w + x + 1]
             - src[(y - 1) * w + x] - src[(y + 1) * w + x];
    }
    dst[y * w + x] = acc / rounds;
}
""", "sharpen")


class Preparer:
    """Uploads a tile and normalizes it on its own stream."""

    def __init__(self, stream):
        self.stream = stream

    def prepare(self, tile):
        with self.stream:
            raw = cp.asarray(tile)
            normal = raw.astype(cp.float32)
            normal -= normal.mean()
            normal /= normal.std() + 1e-6
            return normal, self.stream.record()


class Filter:
    def __init__(self, stream, size):
        self.stream = stream
        self.size = size
        self.threads = (16, 16)
        self.blocks = ((size + 15) // 16, (size + 15) // 16)

    def run(self, tile, prepared, out):
        self.stream.wait_event(prepared)
        with self.stream:
            sharpen(self.blocks, self.threads,
                    (tile, out, np.int32(self.size), np.int32(self.size), np.int32(32)))


class Mosaic:
    def __init__(self, tiles, size):
        self.tiles = tiles
        self.size = size
        self.prep = Preparer(cp.cuda.Stream(non_blocking=True))
        self.filter = Filter(cp.cuda.Stream(non_blocking=True), size)
        self.output = cp.zeros((len(tiles), size, size), cp.float32)
        cp.cuda.Device().synchronize()

    def process(self):
        for i, host in enumerate(self.tiles):
            tile, prepared = self.prep.prepare(host)
            self.filter.run(tile, prepared, self.output[i])
            del tile
        self.filter.stream.synchronize()
        return self.output.get()


def main():
    cp.cuda.set_allocator(cp.cuda.MemoryAsyncPool().malloc)
    rng = np.random.default_rng(0)
    tiles = [rng.integers(0, 255, (1024, 1024)).astype(np.uint16) for _ in range(24)]
    print(Mosaic(tiles, 1024).process().std(axis=(1, 2))[:4])


if __name__ == "__main__":
    main()
