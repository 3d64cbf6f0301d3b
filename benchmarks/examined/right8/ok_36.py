"""cuda.core graph builder: split and join, replayed on the owning stream."""
import cupy as cp
import numpy as np
from cuda.core.experimental import Device, GraphBuilder, LaunchConfig, Program, ProgramOptions, launch

CODE = r"""
extern "C" __global__ void axpy(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = a * x[i] + y[i]; }
extern "C" __global__ void mul(const float* x, const float* y, float* z, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) z[i] = x[i] * y[i]; }
"""


class Replay:
    def __init__(self, n):
        self.dev = Device()
        self.dev.set_current()
        self.stream = self.dev.create_stream()
        self.cp_stream = cp.cuda.ExternalStream(int(self.stream.handle))
        mod = Program(CODE, "c++", ProgramOptions(arch=f"sm_{self.dev.arch}")).compile("cubin")
        axpy, mul = mod.get_kernel("axpy"), mod.get_kernel("mul")
        with self.cp_stream:
            self.x, self.u, self.v, self.z = (cp.zeros(n, cp.float32) for _ in range(4))
        self.stream.sync()
        cfg, count = LaunchConfig(grid=(n + 255) // 256, block=256), np.int32(n)
        gb = self.stream.create_graph_builder().begin_building()
        left, right = gb.split(2)
        launch(left, cfg, axpy, self.x.data.ptr, self.u.data.ptr, np.float32(2), count)
        launch(right, cfg, axpy, self.x.data.ptr, self.v.data.ptr, np.float32(3), count)
        gb = GraphBuilder.join(left, right)
        launch(gb, cfg, mul, self.u.data.ptr, self.v.data.ptr, self.z.data.ptr, count)
        self.graph = gb.end_building().complete()
        self.graph.upload(self.stream)

    def step(self, value):
        with self.cp_stream:
            self.x.fill(value)
            self.graph.launch(self.stream)
            return self.z.sum()

    def run(self, values):
        sums = [self.step(v) for v in values]
        self.stream.sync()
        return [float(s) for s in sums]


if __name__ == "__main__":
    print(Replay(1 << 18).run([1.0, 0.5, 0.25]))
