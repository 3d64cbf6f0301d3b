import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

SOURCE = r"""
__global__ void row_dot(const double *L, const double *x, double *acc, int i, int n)
{
    __shared__ double part[256];
    double s = 0.0;
    for (int j = threadIdx.x; j < i; j += blockDim.x)
        s += L[(long long)i * n + j] * x[j];
    part[threadIdx.x] = s;
    __syncthreads();
    for (int w = blockDim.x / 2; w > 0; w /= 2) {
        if (threadIdx.x < w) part[threadIdx.x] += part[threadIdx.x + w];
        __syncthreads();
    }
    if (threadIdx.x == 0) *acc = part[0];
}

__global__ void row_update(const double *L, const double *b, double *x, double acc, int i, int n)
{
    x[i] = (b[i] - acc) / L[(long long)i * n + i];
}
"""


class TrisolvProgram:
    """Forward substitution L x = b, one row per state of the state machine."""

    def __init__(self, n):
        self.n = n
        module = SourceModule(SOURCE)
        self.row_dot = module.get_function("row_dot")
        self.row_update = module.get_function("row_update")
        self.streams = [cuda.Stream()]

        self.gpu_L = cuda.mem_alloc(8 * n * n)
        self.gpu_b = cuda.mem_alloc(8 * n)
        self.gpu_x = cuda.mem_alloc(8 * n)
        self.gpu_acc = cuda.mem_alloc(8)
        self.host_acc = cuda.pagelocked_zeros(1, np.float64)
        self.host_x = cuda.pagelocked_empty(n, np.float64)

    def copy_in(self, L, b):
        cuda.memcpy_htod(self.gpu_L, L)
        cuda.memcpy_htod(self.gpu_b, b)

    def state_dot(self, i, stream):
        self.row_dot(
            self.gpu_L, self.gpu_x, self.gpu_acc, np.int32(i), np.int32(self.n),
            block=(256, 1, 1), grid=(1, 1), stream=stream,
        )
        cuda.memcpy_dtoh_async(self.host_acc, self.gpu_acc, stream)

    def state_update(self, i, stream):
        acc = np.float64(self.host_acc[0])
        self.row_update(
            self.gpu_L, self.gpu_b, self.gpu_x, acc, np.int32(i), np.int32(self.n),
            block=(1, 1, 1), grid=(1, 1), stream=stream,
        )

    def copy_out(self, stream):
        cuda.memcpy_dtoh_async(self.host_x, self.gpu_x, stream)
        stream.synchronize()
        return self.host_x.copy()

    def __call__(self, L, b):
        stream = self.streams[0]
        self.copy_in(L, b)
        for i in range(self.n):
            self.state_dot(i, stream)
            self.state_update(i, stream)
        return self.copy_out(stream)


def main(n=2048):
    rng = np.random.default_rng(42)
    L = np.tril(rng.random((n, n))) + n * np.eye(n)
    b = rng.random(n)
    program = TrisolvProgram(n)
    x = program(np.ascontiguousarray(L), b)
    print("residual", np.abs(L @ x - b).max())


if __name__ == "__main__":
    main()
