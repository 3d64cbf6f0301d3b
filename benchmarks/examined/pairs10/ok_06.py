"""Block generator and block folder on cuda.core, one stream each."""
import numpy as np
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = """
extern "C" __global__ void ramp(float *dst, float base, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = base + i;
}
extern "C" __global__ void fold(const float *src, float *sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(sum, src[i] * 1e-6f);
}
"""


class BlockFolder:
    def __init__(self, n):
        self.n = n
        self.dev = Device()
        self.dev.set_current()
        self.generate = self.dev.create_stream()
        self.reduce = self.dev.create_stream()
        arch = "".join(str(v) for v in self.dev.compute_capability)
        options = ProgramOptions(std="c++17", arch=f"sm_{arch}")
        module = Program(CODE, code_type="c++", options=options).compile("cubin")
        self.ramp = module.get_kernel("ramp")
        self.fold = module.get_kernel("fold")
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)
        self.pool = self.dev.memory_resource
        self.sum = self.pool.allocate(4, stream=self.reduce)
        self.sum.fill(0, stream=self.reduce)

    def add(self, base):
        block = self.pool.allocate(4 * self.n, stream=self.generate)
        launch(self.generate, self.config, self.ramp, block, np.float32(base), np.int32(self.n))
        self.reduce.wait(self.generate.record())
        launch(self.reduce, self.config, self.fold, block, self.sum, np.int32(self.n))
        block.close(stream=self.reduce)

    def close(self):
        self.reduce.sync()
        self.sum.close(stream=self.reduce)
        self.reduce.close()
        self.generate.close()


def main():
    folder = BlockFolder(1 << 20)
    for step in range(100):
        folder.add(float(step))
    folder.close()


if __name__ == "__main__":
    main()
