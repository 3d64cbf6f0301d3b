"""Gain calibration of detector blocks with PyCUDA."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

BLOCK = 1 << 20

mod = SourceModule("""
__global__ void calibrate(float *x, const float *gain, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= gain[i];
}
""")
calibrate = mod.get_function("calibrate")


class Channel:
    def __init__(self):
        self.stream = drv.Stream()
        self.host = drv.pagelocked_empty(BLOCK, np.float32)
        self.dev = drv.mem_alloc(self.host.nbytes)
        self.pending = None

    def submit(self, tag, block, gain):
        self.host[:] = block
        drv.memcpy_htod_async(self.dev, self.host, self.stream)
        calibrate(self.dev, gain, np.int32(BLOCK), block=(256, 1, 1),
                  grid=(BLOCK // 256, 1), stream=self.stream)
        drv.memcpy_dtoh_async(self.host, self.dev, self.stream)
        self.pending = tag

    def collect(self):
        if self.pending is None:
            return None
        self.stream.synchronize()
        tag, self.pending = self.pending, None
        return tag, float(self.host.mean())


def run(blocks, gain_host):
    gain = drv.mem_alloc(gain_host.nbytes)
    drv.memcpy_htod(gain, gain_host)
    channels = [Channel(), Channel()]
    means = {}

    def keep(result):
        if result is not None:
            means[result[0]] = result[1]

    for tag, block in enumerate(blocks):
        channel = channels[tag & 1]
        keep(channel.collect())
        channel.submit(tag, block, gain)
    for channel in channels:
        keep(channel.collect())
    return means


if __name__ == "__main__":
    rng = np.random.default_rng(3)
    data = (rng.random(BLOCK, dtype=np.float32) for _ in range(20))
    print(run(data, np.full(BLOCK, 1.5, np.float32)))
