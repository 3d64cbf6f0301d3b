import cupy as cp
import numpy as np
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = """
extern "C" __global__ void fill(int* x, int v, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = v;
}
extern "C" __global__ void accumulate(const int* x, int* total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) total[i] += x[i];
}
"""


class Accumulator:
    """A producer and a consumer stream share one scratch block in turns."""

    def __init__(self, n):
        self.n = np.int32(n)
        self.dev = Device()
        self.dev.set_current()
        opts = ProgramOptions(std="c++17", arch=f"sm_{self.dev.arch}")
        mod = Program(CODE, code_type="c++", options=opts).compile("cubin")
        self.fill, self.add = mod.get_kernel("fill"), mod.get_kernel("accumulate")
        self.cfg = LaunchConfig(grid=(n + 127) // 128, block=128)
        self.producer = self.dev.create_stream()
        self.consumer = self.dev.create_stream()
        self.total = self.dev.allocate(4 * n, stream=self.consumer)
        launch(self.consumer, self.cfg, self.fill, self.total.handle, np.int32(0), self.n)

    def push(self, value):
        scratch = self.dev.allocate(4 * int(self.n), stream=self.producer)
        launch(self.producer, self.cfg, self.fill, scratch.handle, np.int32(value), self.n)
        self.consumer.wait(self.producer)
        launch(self.consumer, self.cfg, self.add, scratch.handle, self.total.handle, self.n)
        scratch.close(self.consumer)

    def result(self):
        self.consumer.sync()
        mem = cp.cuda.UnownedMemory(int(self.total.handle), 4 * int(self.n), self.total)
        view = cp.ndarray(int(self.n), cp.int32, cp.cuda.MemoryPointer(mem, 0))
        return view.get()


if __name__ == "__main__":
    acc = Accumulator(10000)
    for k in range(10):
        acc.push(k)
    print(acc.result()[:3])
    acc.total.close(acc.consumer)
