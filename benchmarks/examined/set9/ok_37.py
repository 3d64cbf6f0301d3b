import numpy as np
from cuda.core import Device, DeviceMemoryResource, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, launch

CODE = r'''
extern "C" __global__ void produce(float* data, float value, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) data[i] = value + (float)(i % 7);
}
extern "C" __global__ void reduce_max(const float* data, int* result, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) atomicMax(result, (int)data[i]);
}
extern "C" __global__ void reset(int* result) { *result = -2147483647; }
'''


class HandOff:
    """Blocks are produced on one stream and handed to another stream, which also frees them."""

    def __init__(self, n: int, device_id: int = 0):
        self.device = Device(device_id)
        self.device.set_current()
        self.n = n
        self.nbytes = 4 * n
        self.mr = DeviceMemoryResource(self.device)
        self.pinned_mr = LegacyPinnedMemoryResource()
        self.producer_stream = self.device.create_stream()
        self.consumer_stream = self.device.create_stream()
        program = Program(CODE, code_type="c++", options=ProgramOptions(arch=f"sm_{self.device.arch}"))
        module = program.compile("cubin", name_expressions=("produce", "reduce_max", "reset"))
        self.kernels = {name: module.get_kernel(name) for name in ("produce", "reduce_max", "reset")}
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)
        self.single = LaunchConfig(grid=1, block=1)

    def produce_data(self, value: float):
        buffer = self.mr.allocate(self.nbytes, stream=self.producer_stream)
        launch(self.producer_stream, self.config, self.kernels["produce"], buffer, np.float32(value), np.uint64(self.n))
        return buffer, self.producer_stream.record()

    def consume_data(self, buffer, ready, result):
        self.consumer_stream.wait(ready)
        launch(self.consumer_stream, self.single, self.kernels["reset"], result)
        launch(self.consumer_stream, self.config, self.kernels["reduce_max"], buffer, result, np.uint64(self.n))
        # The free is ordered after the reduction, on the stream that reads the buffer.
        buffer.close(stream=self.consumer_stream)

    def run(self, values) -> list[int]:
        device_result = self.mr.allocate(4, stream=self.consumer_stream)
        out = []
        staging = self.pinned_mr.allocate(4)
        staging_view = np.from_dlpack(staging).view(np.int32)
        for value in values:
            buffer, ready = self.produce_data(value)
            self.consume_data(buffer, ready, device_result)
            device_result.copy_to(staging, stream=self.consumer_stream)
            self.consumer_stream.sync()
            out.append(int(staging_view[0]))
        device_result.close(stream=self.consumer_stream)
        self.consumer_stream.sync()
        return out


if __name__ == "__main__":
    print(HandOff(1 << 20).run([float(i) for i in range(16)]))
