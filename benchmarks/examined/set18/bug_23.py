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
extern "C" __global__ void accumulate(const float* x, float* acc, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    size_t step = gridDim.x * (size_t)blockDim.x;
    for (; i < n; i += step) {
        float v = x[i];
        for (int k = 0; k < 64; ++k) v = fmaf(v, 0.999f, 0.001f);
        acc[i] += v;
    }
}
"""


class DeviceBuffer:
    """Device memory that remembers the stream it was allocated on."""

    def __init__(self, buffer, stream):
        self._buffer = buffer
        self._stream = stream

    @classmethod
    def uninitialized_async(cls, mr, nbytes, stream):
        return cls(mr.allocate(nbytes, stream=stream), stream)

    def copy_from_host_async(self, host, stream):
        host.copy_to(self._buffer, stream=stream)

    @property
    def raw(self):
        return self._buffer

    def drop(self):
        self._buffer.close(self._stream)


def build_kernel(device):
    options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
    program = Program(SOURCE, code_type="c++", options=options)
    return program.compile("cubin").get_kernel("accumulate")


def as_numpy(buffer, n):
    return np.from_dlpack(buffer).view(np.float32)[:n]


def load_batches(pinned_mr, count, n):
    batches = []
    for b in range(count):
        host = pinned_mr.allocate(4 * n)
        as_numpy(host, n)[:] = np.arange(n, dtype=np.float32) % (b + 2)
        batches.append(host)
    return batches


class Pipeline:
    def __init__(self, device, n):
        self.n = n
        self.mr = DeviceMemoryResource(device)
        self.kernel = build_kernel(device)
        self.config = LaunchConfig(grid=256, block=256)
        self.loader = device.create_stream()
        self.compute = device.create_stream()
        self.acc = DeviceBuffer.uninitialized_async(self.mr, 4 * n, self.compute)
        self.acc.raw.fill(0, stream=self.compute)

    def feed(self, host):
        batch = DeviceBuffer.uninitialized_async(self.mr, 4 * self.n, self.loader)
        batch.copy_from_host_async(host, self.loader)
        uploaded = self.loader.record()
        self.compute.wait(uploaded)
        launch(self.compute, self.config, self.kernel, batch.raw, self.acc.raw, np.uint64(self.n))
        batch.drop()

    def result(self, host_out):
        self.acc.raw.copy_to(host_out, stream=self.compute)
        self.compute.sync()
        self.acc.drop()
        return as_numpy(host_out, self.n)


def main(count=16, n=1 << 22):
    device = Device()
    device.set_current()
    pinned_mr = LegacyPinnedMemoryResource()
    batches = load_batches(pinned_mr, count, n)

    pipeline = Pipeline(device, n)
    for host in batches:
        pipeline.feed(host)
    total = pipeline.result(pinned_mr.allocate(4 * n))
    print(total[:8], float(total.sum()))


if __name__ == "__main__":
    main()
