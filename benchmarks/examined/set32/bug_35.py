"""Exposure control of a camera: histogram on the GPU, decision on the host."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

MODULE = SourceModule(
    r"""
    __global__ void histogram(const unsigned short* img, unsigned int* bins, int n, int shift) {
        __shared__ unsigned int local[256];
        for (int i = threadIdx.x; i < 256; i += blockDim.x) local[i] = 0;
        __syncthreads();
        for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
            atomicAdd(&local[(img[i] >> shift) & 255], 1u);
        __syncthreads();
        for (int i = threadIdx.x; i < 256; i += blockDim.x) atomicAdd(&bins[i], local[i]);
    }

    __global__ void tone(const unsigned short* img, unsigned char* out, int n, float gain) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = (unsigned char) fminf(255.f, img[i] * gain);
    }
    """
)


class Metering:
    def __init__(self, shape, shift=4):
        self.n = int(np.prod(shape))
        self.shift = shift
        self.stream = drv.Stream()
        self.image = drv.mem_alloc(self.n * 2)
        self.preview = drv.mem_alloc(self.n)
        self.host_preview = drv.pagelocked_empty(shape, np.uint8)
        self.bins = drv.managed_zeros(256, np.uint32, mem_flags=drv.mem_attach_flags.GLOBAL)
        self.histogram = MODULE.get_function("histogram")
        self.tone = MODULE.get_function("tone")

    def load(self, frame):
        """``frame``: page-locked uint16 image; the caller keeps it until ``wait``."""
        drv.memcpy_htod_async(self.image, frame, self.stream)

    def meter(self, percentile=0.98):
        self.stream.synchronize()
        self.bins.fill(0)
        self.histogram(
            self.image,
            self.bins,
            np.int32(self.n),
            np.int32(self.shift),
            block=(256, 1, 1),
            grid=(120, 1),
            stream=self.stream,
        )
        total = np.cumsum(self.bins)
        level = int(np.searchsorted(total, percentile * self.n))
        return max(level, 1) << self.shift

    def render(self, white):
        self.tone(
            self.image,
            self.preview,
            np.int32(self.n),
            np.float32(255.0 / white),
            block=(256, 1, 1),
            grid=((self.n + 255) // 256, 1),
            stream=self.stream,
        )
        drv.memcpy_dtoh_async(self.host_preview, self.preview, self.stream)

    def wait(self):
        self.stream.synchronize()
        return self.host_preview


class ExposureLoop:
    def __init__(self, camera, shape, target=3200):
        self.camera, self.target = camera, target
        self.metering = Metering(shape)
        self.frame = drv.pagelocked_empty(shape, np.uint16)

    def run(self, count):
        for _ in range(count):
            self.camera.grab(self.frame)
            self.metering.load(self.frame)
            white = self.metering.meter()
            self.metering.render(white)
            self.camera.exposure *= float(np.clip(self.target / white, 0.5, 2.0))
            yield self.metering.wait().copy()
