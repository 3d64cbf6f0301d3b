import numpy as np
from cuda.core.experimental import (
    Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch)

CODE = """
extern "C" __global__ void square(const float* x, float* y, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * x[i];
}
"""


class SquareService:
    """Upload, kernel and download each have a stream of their own."""

    def __init__(self, n):
        self.n = n
        self.dev = Device()
        self.dev.set_current()
        opts = ProgramOptions(std="c++17", arch=f"sm_{self.dev.arch}")
        module = Program(CODE, code_type="c++", options=opts).compile("cubin")
        self.kernel = module.get_kernel("square")
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)
        self.up = self.dev.create_stream()
        self.run = self.dev.create_stream()
        self.down = self.dev.create_stream()
        pinned = LegacyPinnedMemoryResource()
        self.h_in = pinned.allocate(4 * n, stream=self.up)
        self.h_out = pinned.allocate(4 * n, stream=self.up)
        self.d_in = self.dev.allocate(4 * n, stream=self.up)
        self.d_out = self.dev.allocate(4 * n, stream=self.up)
        self.up.sync()

    def __call__(self, values):
        np.from_dlpack(self.h_in).view(np.float32)[:] = values
        self.h_in.copy_to(self.d_in, stream=self.up)
        self.run.wait(self.up.record())
        launch(self.run, self.config, self.kernel,
               self.d_in.handle, self.d_out.handle, np.uint64(self.n))
        self.down.wait(self.run.record())
        self.d_out.copy_to(self.h_out, stream=self.down)
        fetched = self.down.record()
        fetched.sync()
        return np.from_dlpack(self.h_out).view(np.float32).copy()

    def close(self):
        for buf in (self.d_in, self.d_out, self.h_in, self.h_out):
            buf.close(self.down)
        self.down.sync()


if __name__ == "__main__":
    service = SquareService(10000)
    for _ in range(5):
        x = np.random.rand(10000).astype(np.float32)
        print(np.allclose(service(x), x * x))
    service.close()
