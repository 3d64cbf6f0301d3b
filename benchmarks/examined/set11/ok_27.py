"""Producer and consumer streams over stream-ordered buffers of cuda.core."""
from typing import Iterable, List

import numpy as np
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = r"""
extern "C" __global__ void fill(float* x, float seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = seed * (i % 97);
}
extern "C" __global__ void accumulate(float* acc, const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) acc[i] += x[i];
}
"""


class Accumulator:
    def __init__(self, n: int):
        self.dev = Device()
        self.dev.set_current()
        self.n = n
        module = Program(CODE, code_type="c++", options=ProgramOptions(arch=f"sm_{self.dev.arch}")).compile("cubin")
        self.fill = module.get_kernel("fill")
        self.accumulate = module.get_kernel("accumulate")
        self.config = LaunchConfig(grid=(n + 255) // 256, block=256)
        self.producer = self.dev.create_stream()
        self.consumer = self.dev.create_stream()
        self.mr = self.dev.memory_resource
        self.acc = self.mr.allocate(4 * n, stream=self.consumer)
        launch(self.consumer, self.config, self.fill, self.acc, np.float32(0.0), np.int32(n))

    def produce(self, seed: float):
        buffer = self.mr.allocate(4 * self.n, stream=self.producer)
        launch(self.producer, self.config, self.fill, buffer, np.float32(seed), np.int32(self.n))
        return buffer, self.producer.record()

    def consume(self, buffer, ready) -> None:
        self.consumer.wait(ready)
        launch(self.consumer, self.config, self.accumulate, self.acc, buffer, np.int32(self.n))
        # the free is enqueued behind the last kernel that uses the buffer
        buffer.close(self.consumer)

    def run(self, seeds: Iterable[float]) -> None:
        pending: List[tuple] = []
        for seed in seeds:
            pending.append(self.produce(seed))
            if len(pending) > 2:
                self.consume(*pending.pop(0))
        for item in pending:
            self.consume(*item)

    def close(self) -> None:
        self.acc.close(self.consumer)
        self.consumer.sync()
        self.producer.sync()
