"""Detector for several cameras; each camera has its own CUDA stream."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

SRC = r"""
extern "C" __global__ void normalize(const unsigned char *src, float *dst, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = src[i] / 255.0f - 0.5f;
}
extern "C" __global__ void respond(const float *x, float *score, int h, int w, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int n = h * w;
    if (i >= n) return;
    int r = i / w, c = i % w;
    float acc = 0.f;
    for (int k = 0; k < rounds; ++k) {
        int rr = min(max(r + (k % 7) - 3, 0), h - 1);
        int cc = min(max(c + (k / 7) % 7 - 3, 0), w - 1);
        acc += x[rr * w + cc] * __sinf(0.1f * k);
    }
    score[i] = acc;
}
"""


class Detector:
    """Device side of the network: input, activation and score buffers."""

    def __init__(self, h, w):
        mod = SourceModule(SRC, no_extern_c=True)
        self.normalize = mod.get_function("normalize")
        self.respond = mod.get_function("respond")
        self.h, self.w, self.n = h, w, h * w
        self.d_frame = cuda.mem_alloc(self.n)
        self.d_input = cuda.mem_alloc(self.n * 4)
        self.d_score = cuda.mem_alloc(self.n * 4)
        self.block = (256, 1, 1)
        self.grid = ((self.n + 255) // 256, 1)

    def infer(self, camera):
        s = camera.stream
        cuda.memcpy_htod_async(self.d_frame, camera.frame, s)
        self.normalize(self.d_frame, self.d_input, np.int32(self.n),
                       block=self.block, grid=self.grid, stream=s)
        self.respond(self.d_input, self.d_score, np.int32(self.h), np.int32(self.w),
                     np.int32(490), block=self.block, grid=self.grid, stream=s)
        cuda.memcpy_dtoh_async(camera.score, self.d_score, s)


class Camera:
    def __init__(self, ident, h, w):
        self.ident = ident
        self.stream = cuda.Stream()
        self.frame = cuda.pagelocked_empty((h, w), np.uint8)
        self.score = cuda.pagelocked_empty((h, w), np.float32)
        self.rng = np.random.default_rng(ident)

    def grab(self):
        self.frame[...] = self.rng.integers(0, 256, self.frame.shape, dtype=np.uint8)

    def result(self):
        self.stream.synchronize()
        peak = int(self.score.argmax())
        return self.ident, divmod(peak, self.score.shape[1]), float(self.score.max())


def serve(cameras, detector, rounds):
    for tick in range(rounds):
        for cam in cameras:
            cam.grab()
            detector.infer(cam)
        for cam in cameras:
            ident, where, value = cam.result()
            if tick == rounds - 1:
                print(ident, where, round(value, 3))


def main():
    h, w = 1080, 1920
    serve([Camera(i, h, w) for i in range(8)], Detector(h, w), rounds=20)


if __name__ == "__main__":
    main()
