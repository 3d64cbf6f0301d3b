"""Producer/consumer kernels with cuda.core."""
from contextlib import contextmanager

import numpy as np
from cuda.core.experimental import (
    Device,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

CODE = r"""
extern "C" __global__ void ramp(float *out, float base, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) out[i] = base + 0.5f * i;
}
extern "C" __global__ void fold(const float *in, float *acc, int first, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) acc[i] = first ? in[i] : acc[i] + in[i];
}
"""


class Folder:
    def __init__(self, n):
        self.n = n
        self.nbytes = n * 4
        self.dev = Device()
        self.dev.set_current()
        arch = "".join(map(str, self.dev.compute_capability))
        options = ProgramOptions(std="c++17", arch=f"sm_{arch}")
        module = Program(CODE, code_type="c++", options=options).compile("cubin")
        self.ramp = module.get_kernel("ramp")
        self.fold = module.get_kernel("fold")
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)
        self.producer = self.dev.create_stream()
        self.consumer = self.dev.create_stream()
        self.acc = self.dev.allocate(self.nbytes, stream=self.consumer)
        self.host = LegacyPinnedMemoryResource().allocate(self.nbytes)

    @contextmanager
    def handed_over(self):
        """Yield a producer buffer, then pass it to the consumer and free it there."""
        buf = self.dev.allocate(self.nbytes, stream=self.producer)
        try:
            yield buf
        finally:
            self.consumer.wait(self.producer)
            buf.close(self.consumer)

    def add(self, step):
        with self.handed_over() as buf:
            launch(
                self.producer, self.config, self.ramp,
                int(buf.handle), np.float32(step), np.uint64(self.n),
            )
            filled = self.producer.record()
            self.consumer.wait(filled)
            launch(
                self.consumer, self.config, self.fold,
                int(buf.handle), int(self.acc.handle),
                np.int32(step == 0), np.uint64(self.n),
            )

    def result(self):
        self.acc.copy_to(self.host, stream=self.consumer)
        self.consumer.sync()
        return np.from_dlpack(self.host).view(np.float32).copy()

    def close(self):
        self.acc.close(self.consumer)
        self.consumer.sync()
        self.producer.close()
        self.consumer.close()


if __name__ == "__main__":
    folder = Folder(1 << 16)
    for step in range(8):
        folder.add(step)
    print(folder.result()[:4])
    folder.close()
