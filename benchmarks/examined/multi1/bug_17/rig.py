import numpy as np
import pycuda.autoinit
import pycuda.driver as drv
from pycuda.compiler import SourceModule

KERNEL = """
__global__ void shape(const float *src, float *dst, float gain, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = tanhf(gain * src[i]);
}
"""


class Rig:
    def __init__(self, n, rows):
        self.n = n
        self.copy = drv.Stream()
        self.compute = drv.Stream()
        self.src = drv.pagelocked_empty(n, np.float32)
        self.dst = drv.pagelocked_empty((rows, n), np.float32)
        self.d_in = drv.mem_alloc(self.src.nbytes)
        self.d_out = drv.mem_alloc(self.src.nbytes)
        self.uploaded, self.computed, self.fetched = (drv.Event() for _ in range(3))
        self.shape = SourceModule(KERNEL).get_function("shape")

    def upload(self):
        drv.memcpy_htod_async(self.d_in, self.src, self.copy)
        self.uploaded.record(self.copy)
        self.compute.wait_for_event(self.uploaded)

    def launch(self, gain):
        self.shape(self.d_in, self.d_out, np.float32(gain), np.int32(self.n),
                   block=(256, 1, 1), grid=((self.n + 255) // 256, 1), stream=self.compute)
        self.computed.record(self.compute)

    def download(self, row):
        self.copy.wait_for_event(self.computed)
        drv.memcpy_dtoh_async(self.dst[row], self.d_out, self.copy)
        self.fetched.record(self.copy)

    def hold(self):
        self.compute.wait_for_event(self.fetched)

    def finish(self):
        self.fetched.synchronize()
