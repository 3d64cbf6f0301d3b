"""Per-frame luminance histograms for a camera rack (CuPy)."""
import argparse

import cupy as cp
import numpy as np

HIST_SRC = r"""
extern "C" __global__
void luma_hist(const unsigned char* px, unsigned int* bins, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    int step = blockDim.x * gridDim.x;
    for (; i < n; i += step) {
        atomicAdd(&bins[px[i]], 1u);
    }
}
"""

EQ_SRC = r"""
extern "C" __global__
void apply_lut(unsigned char* px, const unsigned char* lut, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        px[i] = lut[px[i]];
    }
}
"""


class HistogramStage:
    """Counts luma values of each frame and equalises it in place."""

    def __init__(self, height, width, bins=256):
        self.height = height
        self.width = width
        self.n = height * width
        self.hist_kernel = cp.RawKernel(HIST_SRC, "luma_hist")
        self.lut_kernel = cp.RawKernel(EQ_SRC, "apply_lut")
        self.stream = cp.cuda.Stream(non_blocking=True)
        self.bins = cp.empty(bins, dtype=cp.uint32)
        self.frames_done = 0

    def reset(self):
        self.bins.fill(0)

    def count(self, frame):
        grid = (min(1024, (self.n + 255) // 256),)
        with self.stream:
            self.hist_kernel(grid, (256,), (frame, self.bins, np.int32(self.n)))

    def build_lut(self):
        with self.stream:
            cdf = cp.cumsum(self.bins.astype(cp.float32))
            lut = (cdf * (255.0 / self.n)).clip(0, 255).astype(cp.uint8)
        return lut

    def equalise(self, frame, lut):
        grid = ((self.n + 255) // 256,)
        with self.stream:
            self.lut_kernel(grid, (256,), (frame, lut, np.int32(self.n)))

    def process(self, host_frame):
        with self.stream:
            frame = cp.asarray(host_frame.reshape(-1))
        self.reset()
        self.count(frame)
        lut = self.build_lut()
        self.equalise(frame, lut)
        self.frames_done += 1
        with self.stream:
            out = cp.asnumpy(frame)
        return out.reshape(self.height, self.width)


class Rack:
    def __init__(self, cameras, height, width):
        self.stages = [HistogramStage(height, width) for _ in range(cameras)]

    def push(self, frames):
        return [s.process(f) for s, f in zip(self.stages, frames)]


def synthetic(height, width, seed):
    rng = np.random.default_rng(seed)
    base = rng.normal(90.0, 25.0, size=(height, width))
    return base.clip(0, 255).astype(np.uint8)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--cameras", type=int, default=4)
    ap.add_argument("--frames", type=int, default=50)
    ap.add_argument("--height", type=int, default=1080)
    ap.add_argument("--width", type=int, default=1920)
    args = ap.parse_args()

    rack = Rack(args.cameras, args.height, args.width)
    spread = []
    for t in range(args.frames):
        frames = [synthetic(args.height, args.width, 100 * t + c) for c in range(args.cameras)]
        outs = rack.push(frames)
        spread.append(float(np.mean([o.std() for o in outs])))
    print("mean spread", sum(spread) / len(spread))


if __name__ == "__main__":
    main()
