import cupy as cp
import numpy as np

from cuda.core import (
    Device,
    DeviceMemoryResource,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

SOURCE = r"""
extern "C" __global__ void scale(const float* in, float* out, float factor, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) out[i] = in[i] * factor;
}
"""


class ChunkedScaler:
    """Scales a large device array chunk by chunk and streams the chunks to the host."""

    def __init__(self, dev, chunk):
        self.dev = dev
        self.chunk = chunk
        options = ProgramOptions(std="c++17", arch=f"sm_{dev.arch}")
        module = Program(SOURCE, code_type="c++", options=options).compile("cubin")
        self.kernel = module.get_kernel("scale")
        self.config = LaunchConfig(grid=(chunk + 255) // 256, block=256)

        self.stream_a = dev.create_stream()
        self.stream_b = dev.create_stream()
        mr = DeviceMemoryResource(dev)
        self.ring = [mr.allocate(4 * chunk, stream=self.stream_a) for _ in range(2)]
        self.drained = [None, None]

    def run(self, source, host, factor):
        chunk = self.chunk
        for i in range(source.size // chunk):
            slot = i % 2
            if self.drained[slot] is not None:
                self.stream_a.wait(self.drained[slot])
            launch(
                self.stream_a,
                self.config,
                self.kernel,
                source.data.ptr + 4 * i * chunk,
                self.ring[slot],
                np.float32(factor),
                np.uint64(chunk),
            )
            produced = self.stream_a.record()
            self.stream_b.wait(produced)
            self.ring[slot].copy_to(host[i], stream=self.stream_b)
            self.drained[slot] = self.stream_b.record()
        self.stream_b.sync()

    def close(self):
        for buffer in self.ring:
            buffer.close(self.stream_b)
        self.stream_b.sync()


def main(chunks=32, chunk=1 << 20):
    dev = Device()
    dev.set_current()

    source = cp.arange(chunks * chunk, dtype=cp.float32)
    source %= 1024
    dev.sync()

    pinned = LegacyPinnedMemoryResource()
    host = [pinned.allocate(4 * chunk) for _ in range(chunks)]

    scaler = ChunkedScaler(dev, chunk)
    scaler.run(source, host, 2.0)

    for i, buffer in enumerate(host):
        view = np.from_dlpack(buffer).view(np.float32)
        expected = (np.arange(i * chunk, i * chunk + 16) % 1024) * 2.0
        assert np.allclose(view[:16], expected)

    scaler.close()


if __name__ == "__main__":
    main()
