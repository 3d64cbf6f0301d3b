"""Ray caster: camera matrices are sent ahead on a copy stream into constant memory."""
import cupy as cp
import cupyx
import numpy as np

W, H = 1024, 768

CODE = r"""
__constant__ float camera[16];
extern "C" __global__ void cast(const float* volume, float* image, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (x >= w) return;
    float s = 0.f;
    for (int k = 0; k < 128; ++k) {
        float u = camera[0] * x + camera[1] * y + camera[2] * k + camera[3];
        float v = camera[4] * x + camera[5] * y + camera[6] * k + camera[7];
        s += volume[((int)fabsf(u) & 127) * 128 + ((int)fabsf(v) & 127)];
    }
    image[y * w + x] = s;
}
"""


class RayCaster:
    def __init__(self, volume):
        module = cp.RawModule(code=CODE)
        self.cast = module.get_function("cast")
        self.camera = cp.ndarray(16, cp.float32, module.get_global("camera"))
        self.copies = cp.cuda.Stream(non_blocking=True)
        self.render = cp.cuda.Stream(non_blocking=True)
        self.set_up = cp.cuda.Event(disable_timing=True)
        with self.render:
            self.volume = cp.asarray(volume)

    def frame(self, matrix):
        self.camera.set(matrix, stream=self.copies)
        self.set_up.record(self.copies)
        self.render.wait_event(self.set_up)
        with self.render:
            image = cp.empty((H, W), cp.float32)
            self.cast((W // 256, H), (256,), (self.volume, image, np.int32(W), np.int32(H)))
            return image

    def movie(self, path):
        images = [self.frame(matrix) for matrix in path]
        with self.render:
            return cp.stack([image.mean() for image in images]).get()


def main(frames=24):
    rng = np.random.default_rng(44)
    path = cupyx.empty_pinned((frames, 16), np.float32)
    for k in range(frames):
        path[k] = np.cos(0.1 * k + np.arange(16))
    caster = RayCaster(rng.random((128, 128), dtype=np.float32))
    print(caster.movie(path))


if __name__ == "__main__":
    main()
