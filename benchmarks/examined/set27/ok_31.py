"""Producer and consumer streams that exchange stream-ordered buffers."""
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
extern "C" __global__ void fill(float* data, float base, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) data[i] = base + sqrtf((float)i);
}
extern "C" __global__ void smooth(const float* src, float* dst, unsigned long long n) {
    unsigned long long i = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    if (i < n) {
        unsigned long long a = i > 0 ? i - 1 : 0, b = i + 1 < n ? i + 1 : n - 1;
        dst[i] = (src[a] + src[i] + src[b]) / 3.0f;
    }
}
"""


class Pipeline:
    def __init__(self, device, count):
        self.device = device
        self.count = count
        self.nbytes = count * np.dtype(np.float32).itemsize
        self.producer = device.create_stream()
        self.consumer = device.create_stream()
        arch = "".join(str(i) for i in device.compute_capability)
        program = Program(CODE, code_type="c++", options=ProgramOptions(std="c++17", arch=f"sm_{arch}"))
        module = program.compile("cubin", name_expressions=("fill", "smooth"))
        self.fill = module.get_kernel("fill")
        self.smooth = module.get_kernel("smooth")
        self.config = LaunchConfig(grid=(count + 255) // 256, block=256)
        self.pinned = LegacyPinnedMemoryResource()

    def produce(self, base):
        buffer = self.device.memory_resource.allocate(self.nbytes, stream=self.producer)
        launch(self.producer, self.config, self.fill, buffer, np.float32(base), np.uint64(self.count))
        return buffer, self.producer.record()

    def consume(self, buffer, ready, output):
        self.consumer.wait(ready)
        scratch = self.device.memory_resource.allocate(self.nbytes, stream=self.consumer)
        launch(self.consumer, self.config, self.smooth, buffer, scratch, np.uint64(self.count))
        scratch.copy_to(output, stream=self.consumer)
        scratch.close(self.consumer)
        buffer.close(self.consumer)
        return self.consumer.record()

    def run(self, bases):
        outputs = [self.pinned.allocate(self.nbytes) for _ in range(2)]
        views = [np.from_dlpack(o).view(np.float32) for o in outputs]
        pending = [None, None]
        sums = []

        def drain(slot):
            if pending[slot] is not None:
                pending[slot].sync()
                sums.append(float(views[slot].sum(dtype=np.float64)))
                pending[slot] = None

        for i, base in enumerate(bases):
            slot = i % 2
            buffer, ready = self.produce(base)
            drain(slot)
            pending[slot] = self.consume(buffer, ready, outputs[slot])
        for i in range(len(bases), len(bases) + 2):
            drain(i % 2)
        self.consumer.sync()
        self.producer.sync()
        return sums


def main():
    device = Device()
    device.set_current()
    pipeline = Pipeline(device, count=1 << 22)
    print(pipeline.run([float(k) for k in range(32)]))


if __name__ == "__main__":
    main()
