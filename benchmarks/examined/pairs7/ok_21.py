"""Adjoint imaging: the forward field is kept in checkpoints read by the backward pass."""
import numpy as np
from cuda.core.experimental import Device, LaunchConfig, Program, launch

CODE = r"""
extern "C" __global__ void forward(float *u, float *shot, int n, float c) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { u[i] = c * u[i] + 1e-3f * (i & 15); shot[i] = u[i]; }
}
extern "C" __global__ void correlate(const float *shot, float *image, int n, float w) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) image[i] += w * shot[i];
}
extern "C" __global__ void zero(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 0.f;
}
"""
N = 1 << 21


class Imaging:
    def __init__(self, checkpoints=3):
        self.dev = Device()
        self.dev.set_current()
        mod = Program(CODE, code_type="c++").compile("cubin")
        self.kernels = {k: mod.get_kernel(k) for k in ("forward", "correlate", "zero")}
        self.config = LaunchConfig(grid=(N + 255) // 256, block=256)
        self.fwd = self.dev.create_stream()
        self.adj = self.dev.create_stream()
        mr = self.dev.memory_resource
        self.field = mr.allocate(4 * N, stream=self.fwd)
        self.image = mr.allocate(4 * N, stream=self.fwd)
        self.shots = [mr.allocate(4 * N, stream=self.fwd) for _ in range(checkpoints)]
        self.used = [None] * checkpoints
        for buffer in (self.field, self.image):
            launch(self.fwd, self.config, self.kernels["zero"], buffer, np.int32(N))

    def step(self, t):
        k = t % len(self.shots)
        if self.used[k] is not None:
            self.fwd.wait(self.used[k])
        launch(self.fwd, self.config, self.kernels["forward"], self.field, self.shots[k],
               np.int32(N), np.float32(0.999))
        self.adj.wait(self.fwd.record())
        launch(self.adj, self.config, self.kernels["correlate"], self.shots[k], self.image,
               np.int32(N), np.float32(1.0 / (t + 1)))
        self.used[k] = self.adj.record()

    def close(self):
        self.adj.sync()
        for buffer in (*self.shots, self.field):
            buffer.close(self.fwd)
        self.image.close(self.adj)


def main(steps=100):
    imaging = Imaging()
    for t in range(steps):
        imaging.step(t)
    imaging.close()


if __name__ == "__main__":
    main()
