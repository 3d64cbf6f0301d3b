"""Two-stage signal chain with cuda.core: decimate on one stream, square on the next."""
import numpy as np
from cuda.core.experimental import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, launch

CODE = r"""
extern "C" __global__ void decimate(const float *x, float *y, int n, int factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i * factor < n) y[i] = x[i * factor];
}
extern "C" __global__ void power(const float *y, float *p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = y[i] * y[i];
}
"""
N, FACTOR = 1 << 20, 8
M = N // FACTOR


class Chain:
    def __init__(self):
        self.dev = Device()
        self.dev.set_current()
        module = Program(CODE, code_type="c++").compile("cubin")
        self.decimate = module.get_kernel("decimate")
        self.power = module.get_kernel("power")
        self.front = self.dev.create_stream()
        self.back = self.dev.create_stream()
        self.pinned = LegacyPinnedMemoryResource()
        self.input = self.pinned.allocate(4 * N)
        self.output = self.pinned.allocate(4 * M)

    def __call__(self, samples):
        mr = self.dev.memory_resource
        np.from_dlpack(self.input).view(np.float32)[:] = samples
        x = mr.allocate(4 * N, stream=self.front)
        y = mr.allocate(4 * M, stream=self.front)
        x.copy_from(self.input, stream=self.front)
        config = LaunchConfig(grid=(M + 255) // 256, block=256)
        launch(self.front, config, self.decimate, x, y, np.int32(N), np.int32(FACTOR))
        x.close(self.front)
        self.back.wait(self.front.record())
        p = mr.allocate(4 * M, stream=self.back)
        launch(self.back, config, self.power, y, p, np.int32(M))
        y.close(self.back)
        p.copy_to(self.output, stream=self.back)
        p.close(self.back)
        self.back.sync()
        return np.from_dlpack(self.output).view(np.float32).copy()


def main():
    chain = Chain()
    rng = np.random.default_rng(6)
    for _ in range(10):
        print(chain(rng.standard_normal(N).astype(np.float32)).mean())


if __name__ == "__main__":
    main()
