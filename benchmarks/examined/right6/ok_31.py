import cupy as cp
from cuda.core.experimental import Device, LaunchConfig, Program, ProgramOptions, launch

CODE = """
template <typename T>
__global__ void saxpy(T a, const T* x, const T* y, T* out, size_t n) {
    const size_t stride = blockDim.x * (size_t)gridDim.x;
    for (size_t i = threadIdx.x + blockIdx.x * (size_t)blockDim.x; i < n; i += stride)
        out[i] = a * x[i] + y[i];
}
"""


class Saxpy:
    def __init__(self):
        self.dev = Device()
        self.dev.set_current()
        self.stream = self.dev.create_stream()
        opts = ProgramOptions(std="c++11", arch=f"sm_{self.dev.arch}")
        mod = Program(CODE, code_type="c++", options=opts).compile(
            "cubin", name_expressions=("saxpy<float>", "saxpy<double>"))
        self.kernels = {cp.dtype(cp.float32): mod.get_kernel("saxpy<float>"),
                        cp.dtype(cp.float64): mod.get_kernel("saxpy<double>")}

    def __call__(self, a, x, y):
        out = cp.empty_like(x)
        self.dev.sync()
        launch(self.stream, LaunchConfig(grid=32, block=256), self.kernels[x.dtype],
               x.dtype.type(a), x.data.ptr, y.data.ptr, out.data.ptr, cp.uint64(x.size))
        self.stream.sync()
        return out


def main():
    saxpy = Saxpy()
    for dtype in (cp.float32, cp.float64):
        rng = cp.random.default_rng(3)
        x = rng.random(100000, dtype=dtype)
        y = rng.random(100000, dtype=dtype)
        for a in (1.0, 2.0, 10.0):
            y = saxpy(a, x, y)
        print(dtype.__name__, float(y.sum()))


if __name__ == "__main__":
    main()
