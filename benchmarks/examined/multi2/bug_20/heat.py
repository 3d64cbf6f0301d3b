import ctypes

from cuda.bindings import driver as cu

from gpu import build, check, new_event, new_stream

SOURCE = r"""
extern "C" __global__ void spread(const float* in, float* out, int n, float k) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return;
    int i = y * n + x;
    out[i] = in[i] + k * (in[i-1] + in[i+1] + in[i-n] + in[i+n] - 4.0f * in[i]);
}
"""


class Heat:
    def __init__(self, field, device, rate=0.2):
        self.field = field
        self.rate = rate
        self.kernel = build(SOURCE, "spread", device)
        self.stream = new_stream()
        self.written = new_event()

    def advance(self):
        f = self.field
        blocks = (f.n + 15) // 16
        args = ((f.front, f.back, f.n, self.rate),
                (None, None, ctypes.c_int, ctypes.c_float))
        check(cu.cuLaunchKernel(self.kernel, blocks, blocks, 1, 16, 16, 1,
                                0, self.stream, args, 0))
        f.swap()
        check(cu.cuEventRecord(self.written, self.stream))

    def set_rate(self, rate):
        if not 0.0 < rate <= self.field.stable_rate():
            raise ValueError("explicit steps would blow up")
        self.rate = rate
