import numpy as np
from cuda.core.experimental import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

CODE = r"""
extern "C" __global__ void lorenz(const float* in, float* out, int n, float dt, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = in[3*i], y = in[3*i+1], z = in[3*i+2];
    for (int k = 0; k < steps; ++k) {
        float dx = 10.f * (y - x), dy = x * (28.f - z) - y, dz = x * y - 8.f / 3.f * z;
        x += dt * dx; y += dt * dy; z += dt * dz;
    }
    out[3*i] = x; out[3*i+1] = y; out[3*i+2] = z;
}
"""


class LorenzFarm:
    """Uploads on one stream, integrates on another, downloads where it computed."""

    def __init__(self, n):
        self.n = n
        self.dev = Device()
        self.dev.set_current()
        opts = ProgramOptions(std="c++17", arch=f"sm_{self.dev.arch}")
        self.kernel = Program(CODE, "c++", options=opts).compile("cubin").get_kernel("lorenz")
        self.io = self.dev.create_stream()
        self.work = self.dev.create_stream()
        pinned = LegacyPinnedMemoryResource()
        self.nbytes = n * 12
        self.h_in = pinned.allocate(self.nbytes)
        self.h_out = pinned.allocate(self.nbytes)
        self.start = np.from_dlpack(self.h_in).view(np.float32).reshape(n, 3)
        self.final = np.from_dlpack(self.h_out).view(np.float32).reshape(n, 3)
        self.config = LaunchConfig(grid=(n + 127) // 128, block=128)

    def run(self, states, steps):
        self.start[...] = states
        src = self.dev.allocate(self.nbytes, stream=self.io)
        dst = self.dev.allocate(self.nbytes, stream=self.work)
        src.copy_from(self.h_in, stream=self.io)
        self.work.wait(self.io.record())
        launch(
            self.work,
            self.config,
            self.kernel,
            src,
            dst,
            np.int32(self.n),
            np.float32(0.005),
            np.int32(steps),
        )
        dst.copy_to(self.h_out, stream=self.work)
        src.close(self.work)
        dst.close(self.work)
        self.work.sync()
        return self.final.copy()

    def close(self):
        self.dev.sync()
        self.start = self.final = None
        self.h_in.close()
        self.h_out.close()
        self.io.close()
        self.work.close()


def main():
    farm = LorenzFarm(1 << 16)
    state = np.random.default_rng(0).standard_normal((1 << 16, 3)).astype(np.float32)
    for k in range(10):
        state = farm.run(state, 100)
        print(k, state.mean(0))
    farm.close()


if __name__ == "__main__":
    main()
