import numpy as np
from cuda.core.experimental import (
    Device,
    LaunchConfig,
    LegacyPinnedMemoryResource,
    Program,
    ProgramOptions,
    launch,
)

SOURCE = r"""
extern "C" __global__ void normalize(const float* in, float* out, float mean, float inv_std, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) out[i] = (in[i] - mean) * inv_std;
}
"""


class TransferManager:
    """Owns the upload stream and the buffers that it fills."""

    def __init__(self, device, count):
        self.stream = device.create_stream()
        self.nbytes = count * np.dtype(np.float32).itemsize
        self.device_buffer = device.allocate(self.nbytes, stream=self.stream)
        self.pinned = LegacyPinnedMemoryResource().allocate(self.nbytes)
        self.host = np.from_dlpack(self.pinned).view(np.float32)
        self.stream.sync()

    def upload(self, values):
        self.host[: values.size] = values
        self.device_buffer.copy_from(self.pinned, stream=self.stream)
        return self.device_buffer


class Executable:
    def __init__(self, device, count):
        self.count = count
        self.stream = device.create_stream()
        options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}")
        module = Program(SOURCE, code_type="c++", options=options).compile("cubin")
        self.kernel = module.get_kernel("normalize")
        nbytes = count * np.dtype(np.float32).itemsize
        self.out = device.allocate(nbytes, stream=self.stream)
        self.result = LegacyPinnedMemoryResource().allocate(nbytes)
        self.result_host = np.from_dlpack(self.result).view(np.float32)

    def run(self, argument, mean, std):
        config = LaunchConfig(grid=(self.count + 255) // 256, block=256)
        launch(
            self.stream,
            config,
            self.kernel,
            argument,
            self.out,
            np.float32(mean),
            np.float32(1.0 / std),
            np.uint64(self.count),
        )
        self.out.copy_to(self.result, stream=self.stream)
        self.stream.sync()
        return self.result_host.copy()


class Client:
    def __init__(self, count, ordinal=0):
        self.device = Device(ordinal)
        self.device.set_current()
        self.transfers = TransferManager(self.device, count)
        self.executable = Executable(self.device, count)

    def execute(self, values, mean, std):
        argument = self.transfers.upload(values)
        self.executable.stream.wait(self.transfers.stream.record())
        return self.executable.run(argument, mean, std)


def main():
    rng = np.random.default_rng(0)
    client = Client(1 << 22)
    for _ in range(16):
        batch = rng.standard_normal(1 << 22, dtype=np.float32)
        print(client.execute(batch, batch.mean(), batch.std()).std())


if __name__ == "__main__":
    main()
