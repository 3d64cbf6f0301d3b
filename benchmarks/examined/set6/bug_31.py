import cupy as cp
from cuda.core.experimental import (
    Device,
    GraphBuilder,
    LaunchConfig,
    Program,
    ProgramOptions,
    launch,
)

_CODE = r"""
extern "C" __global__ void scale(float* x, float s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= s;
}
extern "C" __global__ void power(const float* x, float* y, int p, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { float v = 1.f; for (int k = 0; k < p; ++k) v *= x[i]; y[i] = v; }
}
extern "C" __global__ void combine(const float* a, const float* b, const float* c, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i] + c[i];
}
"""


class PolynomialGraph:
    """x + x^2 + x^3 of a scaled input, the three powers as parallel branches."""

    def __init__(self, n: int):
        self.n = n
        self.device = Device()
        self.device.set_current()
        self.stream = self.device.create_stream()
        arch = "".join(f"{i}" for i in self.device.compute_capability)
        program = Program(_CODE, code_type="c++", options=ProgramOptions(arch=f"sm_{arch}"))
        module = program.compile("cubin")
        self.kernels = {name: module.get_kernel(name) for name in ("scale", "power", "combine")}
        self.x = cp.empty(n, dtype=cp.float32)
        self.powers = [cp.empty(n, dtype=cp.float32) for _ in range(3)]
        self.out = cp.empty(n, dtype=cp.float32)
        cp.cuda.Device().synchronize()
        self.graph = self._build()

    def _config(self) -> LaunchConfig:
        return LaunchConfig(grid=(self.n + 255) // 256, block=256)

    def _build(self):
        n, config = cp.int32(self.n), self._config()
        gb = self.device.create_graph_builder().begin_building()
        launch(gb, config, self.kernels["scale"], self.x.data.ptr, cp.float32(0.5), n)

        branches = gb.split(3)
        for p, (branch, y) in enumerate(zip(branches, self.powers), start=1):
            launch(
                branch, config, self.kernels["power"], self.x.data.ptr, y.data.ptr, cp.int32(p), n
            )
        gb = GraphBuilder.join(branches[0], branches[1])

        a, b, c = (y.data.ptr for y in self.powers)
        launch(gb, config, self.kernels["combine"], a, b, c, self.out.data.ptr, n)
        return gb.end_building().complete()

    def __call__(self, values) -> cp.ndarray:
        self.x.set(values)
        cp.cuda.get_current_stream().synchronize()
        self.graph.launch(self.stream)
        self.stream.sync()
        return self.out
