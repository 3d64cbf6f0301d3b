import cupy as cp
import numpy as np

_stencil = cp.RawKernel(
    r"""
extern "C" __global__
void heat(const double* src, double* dst, int nx, int ny, double a) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    int i = y * nx + x;
    dst[i] = src[i] + a * (src[i - 1] + src[i + 1] + src[i - nx] + src[i + nx] - 4.0 * src[i]);
}
""",
    "heat",
)


class QueueCudaRtBlocking:
    """Blocking queue: every enqueued task is complete when enqueue returns."""

    def __init__(self, device=0):
        self.device = cp.cuda.Device(device)
        with self.device:
            self.stream = cp.cuda.Stream(non_blocking=True)

    def enqueue(self, kernel, grid, block, args):
        with self.device:
            kernel(grid, block, args, stream=self.stream)
            self.stream.synchronize()

    def copy(self, dst, src):
        with self.device:
            kind = cp.cuda.runtime.memcpyDeviceToDevice
            cp.cuda.runtime.memcpy(dst.data.ptr, src.data.ptr, src.nbytes, kind)

    def copy_to_host(self, src):
        return src.get(stream=self.stream)


class HeatSolver:
    def __init__(self, nx, ny, alpha=0.1):
        self.nx, self.ny = nx, ny
        self.alpha = np.float64(alpha)
        self.queue = QueueCudaRtBlocking()
        init = np.zeros((ny, nx))
        init[ny // 4 : ny // 2, nx // 4 : nx // 2] = 1.0
        self.curr = cp.asarray(init)
        self.next = cp.asarray(init)
        cp.cuda.Device().synchronize()

    def step(self):
        block = (32, 8)
        grid = ((self.nx + 31) // 32, (self.ny + 7) // 8)
        args = (self.curr, self.next, np.int32(self.nx), np.int32(self.ny), self.alpha)
        self.queue.enqueue(_stencil, grid, block, args)
        self.queue.copy(self.curr, self.next)

    def run(self, steps):
        for _ in range(steps):
            self.step()
        return self.queue.copy_to_host(self.curr)
