"""Scaling chunks with cuda.core buffers that cross two streams."""
import numpy as np
from cuda.core.experimental import (
    Device,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

_CODE = """
extern "C" __global__ void scale(const float *x, float *y, float a, size_t n)
{
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
"""


class Scaler:
    def __init__(self, n: int):
        self.dev = Device()
        self.dev.set_current()
        arch = "".join(str(v) for v in self.dev.compute_capability)
        options = ProgramOptions(std="c++17", arch=f"sm_{arch}")
        self.kernel = Program(_CODE, code_type="c++", options=options).compile("cubin").get_kernel("scale")
        self.upload = self.dev.create_stream()
        self.work = self.dev.create_stream()
        self.n, self.nbytes = n, n * 4
        pinned = LegacyPinnedMemoryResource()
        self.h_in = pinned.allocate(self.nbytes)
        self.h_out = pinned.allocate(self.nbytes)
        self.a_in = np.from_dlpack(self.h_in).view(np.float32)
        self.a_out = np.from_dlpack(self.h_out).view(np.float32)
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)

    def __call__(self, chunk: np.ndarray, factor: float) -> np.ndarray:
        self.a_in[:] = chunk
        x = self.dev.allocate(self.nbytes, stream=self.upload)
        x.copy_from(self.h_in, stream=self.upload)
        self.work.wait(self.upload.record())
        y = self.dev.allocate(self.nbytes, stream=self.work)
        launch(self.work, self.config, self.kernel, x, y, np.float32(factor), np.uint64(self.n))
        x.close(self.work)
        y.copy_to(self.h_out, stream=self.work)
        y.close(self.work)
        self.work.sync()
        return self.a_out.copy()

    def close(self) -> None:
        for stream in (self.upload, self.work):
            stream.sync()
        del self.a_in, self.a_out
        self.h_in.close()
        self.h_out.close()
        self.upload.close()
        self.work.close()


def main():
    scaler = Scaler(1 << 18)
    rng = np.random.default_rng(9)
    try:
        for k in range(10):
            chunk = rng.random(1 << 18, dtype=np.float32)
            out = scaler(chunk, 0.5 + k)
            print(k, float(np.abs(out - chunk * (0.5 + k)).max()))
    finally:
        scaler.close()


if __name__ == "__main__":
    main()
