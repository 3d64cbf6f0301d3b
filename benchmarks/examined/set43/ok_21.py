"""Background model for a fixed camera: running mean plus change mask (CuPy)."""
import argparse

import cupy as cp
import numpy as np

DIFF_SRC = r"""
extern "C" __global__
void change_mask(const float* cur, const float* mean, int* moved, float thr, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n && fabsf(cur[i] - mean[i]) > thr) {
        atomicAdd(moved, 1);
    }
}
"""

BLEND_SRC = r"""
extern "C" __global__
void blend(float* mean, const float* cur, float rate, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        mean[i] = mean[i] * (1.0f - rate) + cur[i] * rate;
    }
}
"""


class BackgroundModel:
    def __init__(self, shape, rate=0.05, threshold=12.0):
        self.shape = shape
        self.n = int(np.prod(shape))
        self.rate = np.float32(rate)
        self.threshold = np.float32(threshold)
        self.diff = cp.RawKernel(DIFF_SRC, "change_mask")
        self.blend = cp.RawKernel(BLEND_SRC, "blend")
        self.work = cp.cuda.Stream()
        self.mean = cp.zeros(self.n, dtype=cp.float32)
        self.moved = cp.zeros(1, dtype=cp.int32)
        self.warm = False

    def _grid(self):
        return ((self.n + 255) // 256,)

    def clear_counter(self):
        self.moved.fill(0)

    def seed(self, frame):
        self.mean[...] = frame
        self.warm = True

    def compare(self, frame):
        with self.work:
            self.diff(self._grid(), (256,),
                      (frame, self.mean, self.moved, self.threshold, np.int32(self.n)))

    def absorb(self, frame):
        with self.work:
            self.blend(self._grid(), (256,), (self.mean, frame, self.rate, np.int32(self.n)))

    def step(self, host_frame):
        frame = cp.asarray(host_frame.reshape(-1).astype(np.float32))
        if not self.warm:
            self.seed(frame)
        self.clear_counter()
        self.compare(frame)
        self.absorb(frame)
        return int(self.moved.get()[0])

    def snapshot(self):
        return self.mean.get().reshape(self.shape)


class Alarm:
    def __init__(self, fraction):
        self.fraction = fraction
        self.hits = []

    def update(self, t, moved, total):
        if moved > self.fraction * total:
            self.hits.append(t)


def scene(shape, t, rng):
    img = np.full(shape, 60.0) + rng.normal(0.0, 2.0, size=shape)
    if t % 10 > 6:
        img[100:220, 40:300] += 80.0
    return img


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--frames", type=int, default=60)
    ap.add_argument("--height", type=int, default=480)
    ap.add_argument("--width", type=int, default=640)
    args = ap.parse_args()

    rng = np.random.default_rng(3)
    model = BackgroundModel((args.height, args.width))
    alarm = Alarm(0.02)
    for t in range(args.frames):
        moved = model.step(scene((args.height, args.width), t, rng))
        alarm.update(t, moved, model.n)
    print("alarms at", alarm.hits, "background mean", model.snapshot().mean())


if __name__ == "__main__":
    main()
