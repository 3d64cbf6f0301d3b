"""Per-frame motion score (sum of absolute differences of blurred luma), on Numba."""
import math

import numpy as np
from numba import cuda, float32


@cuda.jit
def blur_rows(src, dst):
    x, y = cuda.grid(2)
    h, w = src.shape
    if x < w and y < h:
        acc = float32(0.0)
        for k in range(-2, 3):
            xx = min(max(x + k, 0), w - 1)
            acc += src[y, xx] * float32(0.2)
        dst[y, x] = acc


@cuda.jit
def sad_kernel(cur, prev, out):
    tile = cuda.shared.array(256, float32)
    x, y = cuda.grid(2)
    t = cuda.threadIdx.y * cuda.blockDim.x + cuda.threadIdx.x
    h, w = cur.shape
    tile[t] = abs(cur[y, x] - prev[y, x]) if x < w and y < h else float32(0.0)
    cuda.syncthreads()
    step = 128
    while step > 0:
        if t < step:
            tile[t] += tile[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, tile[0])


@cuda.jit
def clear_kernel(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = 0.0


class MotionState:
    def __init__(self, h, w):
        self.blurred = [cuda.device_array((h, w), np.float32) for _ in range(2)]
        self.sad = cuda.device_array(1, np.float32)
        self.sad_host = cuda.pinned_array(1, np.float32)


class MotionExtractor:
    def __init__(self, height, width):
        self.h, self.w = height, width
        self.picture_stream = cuda.stream()
        self.score_stream = cuda.stream()
        self.uploaded = cuda.event(timing=False)
        self.luma_host = cuda.pinned_array((height, width), np.float32)
        self.luma = cuda.device_array((height, width), np.float32)
        self.state = MotionState(height, width)
        self.threads = (16, 16)
        self.blocks = (math.ceil(width / 16), math.ceil(height / 16))
        self.frame = 0

    def _ingest(self, picture):
        self.luma_host[:] = picture
        self.luma.copy_to_device(self.luma_host, stream=self.picture_stream)
        self.uploaded.record(self.picture_stream)
        clear_kernel[1, 32, self.picture_stream](self.state.sad)

    def _score(self):
        st = self.state
        cur, prev = st.blurred[self.frame % 2], st.blurred[(self.frame + 1) % 2]
        self.uploaded.wait(self.score_stream)
        blur_rows[self.blocks, self.threads, self.score_stream](self.luma, cur)
        if self.frame == 0:
            return False
        sad_kernel[self.blocks, self.threads, self.score_stream](cur, prev, st.sad)
        st.sad.copy_to_host(st.sad_host, stream=self.score_stream)
        return True

    def extract(self, picture):
        self._ingest(picture)
        have = self._score()
        self.score_stream.synchronize()
        self.frame += 1
        return float(self.state.sad_host[0]) / (self.h * self.w) if have else 0.0


def pictures(n, h, w):
    rng = np.random.default_rng(3)
    base = rng.random((h, w), dtype=np.float32) * 255
    for i in range(n):
        yield np.roll(base, i * 3, axis=1)


def main():
    h, w = 1080, 1920
    motion = MotionExtractor(h, w)
    scores = [motion.extract(p) for p in pictures(48, h, w)]
    second = [min(a, b) for a, b in zip(scores, scores[1:] + [scores[-1]])]
    print("motion", np.round(scores[:5], 3), "motion2", np.round(second[:5], 3))


if __name__ == "__main__":
    main()
