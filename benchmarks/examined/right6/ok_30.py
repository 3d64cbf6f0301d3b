import cupy as cp
from cuda.core.experimental import (
    Device, GraphBuilder, LaunchConfig, Program, ProgramOptions, launch)

CODE = """
extern "C" __global__ void scale(float* y, const float* x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i];
}
extern "C" __global__ void add(float* z, const float* x, const float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}
"""


class AxpbyGraph:
    def __init__(self, n):
        self.dev = Device()
        self.dev.set_current()
        self.n = n
        self.stream = self.dev.create_stream()
        self.view = cp.cuda.ExternalStream(int(self.stream.handle))
        with self.view:
            self.x = cp.zeros(n, cp.float32)
            self.left = cp.zeros(n, cp.float32)
            self.right = cp.zeros(n, cp.float32)
            self.out = cp.zeros(n, cp.float32)
        self.stream.sync()
        opts = ProgramOptions(std="c++17", arch=f"sm_{self.dev.arch}")
        mod = Program(CODE, code_type="c++", options=opts).compile("cubin")
        self.scale, self.add = mod.get_kernel("scale"), mod.get_kernel("add")
        self.graph = self._build(2.0, 3.0)

    def _build(self, a, b):
        cfg = LaunchConfig(grid=(self.n + 255) // 256, block=256)
        n = cp.int32(self.n)
        gb = self.stream.create_graph_builder().begin_building()
        left, right = gb.split(2)
        launch(left, cfg, self.scale, self.left.data.ptr, self.x.data.ptr, cp.float32(a), n)
        launch(right, cfg, self.scale, self.right.data.ptr, self.x.data.ptr, cp.float32(b), n)
        gb = GraphBuilder.join(left, right)
        launch(gb, cfg, self.add, self.out.data.ptr, self.left.data.ptr, self.right.data.ptr, n)
        return gb.end_building().complete()

    def __call__(self, values):
        with self.view:
            self.x[...] = values
            self.graph.launch(self.stream)
            return self.out.get()


if __name__ == "__main__":
    g = AxpbyGraph(5000)
    for k in range(4):
        print(g(float(k))[0])
