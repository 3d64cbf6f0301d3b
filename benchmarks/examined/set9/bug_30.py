import numpy as np
from cuda.core import Device, DeviceMemoryResource, LaunchConfig, Program, ProgramOptions, launch

CODE = r'''
extern "C" __global__ void fill(float* data, float value, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) data[i] = value * (float)(i % 1024);
}
extern "C" __global__ void accumulate(const float* data, float* acc, size_t n) {
    size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
    if (i < n) acc[i] += data[i];
}
'''


class Pipeline:
    """Producer stream generates blocks, consumer stream folds them into an accumulator."""

    def __init__(self, n: int, device_id: int = 0):
        self.device = Device(device_id)
        self.device.set_current()
        self.n = n
        self.nbytes = n * np.dtype(np.float32).itemsize
        self.mr = DeviceMemoryResource(self.device)
        self.producer = self.device.create_stream()
        self.consumer = self.device.create_stream()
        program = Program(CODE, code_type="c++", options=ProgramOptions(arch=f"sm_{self.device.arch}"))
        module = program.compile("cubin", name_expressions=("fill", "accumulate"))
        self.fill = module.get_kernel("fill")
        self.accumulate = module.get_kernel("accumulate")
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)
        self.acc = self.mr.allocate(self.nbytes, stream=self.consumer)
        launch(self.consumer, self.config, self.fill, self.acc, np.float32(0.0), np.uint64(n))

    def produce(self, value: float):
        block = self.mr.allocate(self.nbytes, stream=self.producer)
        launch(self.producer, self.config, self.fill, block, np.float32(value), np.uint64(self.n))
        return block, self.producer.record()

    def consume(self, block, ready):
        self.consumer.wait(ready)
        launch(self.consumer, self.config, self.accumulate, block, self.acc, np.uint64(self.n))
        block.close()

    def run(self, values):
        for value in values:
            block, ready = self.produce(value)
            self.consume(block, ready)
        self.consumer.sync()

    def close(self):
        self.acc.close(stream=self.consumer)
        self.consumer.sync()


def main():
    pipeline = Pipeline(1 << 24)
    pipeline.run(float(i) for i in range(64))
    pipeline.close()
