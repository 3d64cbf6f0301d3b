"""Reverse time migration kernel sweep with PyCUDA: two shots in flight."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

MOD = SourceModule("""
__global__ void propagate(float *p, const float *v, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n - 1) p[i] += v[i] * (p[i-1] - 2.f * p[i] + p[i+1]);
}
__global__ void image(float *img, const float *a, const float *b, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) img[i] += a[i] * b[i];
}
""")
propagate = MOD.get_function("propagate")
image = MOD.get_function("image")


class Migration:
    block = (256, 1, 1)

    def __init__(self, velocity):
        self.n = np.int32(velocity.size)
        self.grid = ((velocity.size + 255) // 256, 1)
        self.v = drv.to_device(velocity)
        self.fwd = drv.mem_alloc(velocity.nbytes)
        self.bwd = drv.mem_alloc(velocity.nbytes)
        self.img = drv.to_device(np.zeros_like(velocity))
        self.streams = {"fwd": drv.Stream(), "bwd": drv.Stream()}

    def shot(self, source, receiver, steps):
        drv.memcpy_htod(self.fwd, source)
        drv.memcpy_htod(self.bwd, receiver)
        for _ in range(steps):
            propagate(self.fwd, self.v, self.n, block=self.block, grid=self.grid,
                      stream=self.streams["fwd"])
            propagate(self.bwd, self.v, self.n, block=self.block, grid=self.grid,
                      stream=self.streams["bwd"])
            image(self.img, self.fwd, self.bwd, self.n, block=self.block, grid=self.grid)

    def stack(self):
        out = np.empty(int(self.n), np.float32)
        drv.memcpy_dtoh(out, self.img)
        return out


def main():
    vel = np.full(1 << 20, 0.2, np.float32)
    rtm = Migration(vel)
    for path in ("shot0.npz", "shot1.npz"):
        data = np.load(path)
        rtm.shot(data["src"].astype(np.float32), data["rec"].astype(np.float32), 400)
    np.save("image.npy", rtm.stack())


if __name__ == "__main__":
    main()
