from collections import namedtuple

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

RenderedImage = namedtuple("RenderedImage", "buf idx gpu_time")

SOURCE = r"""
__global__ void iterate(float *acc, int n, float t)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = 0.5f, y = (float)i / n;
    for (int k = 0; k < 512; ++k) {
        float nx = __sinf(t * y) - __cosf(2.1f * x);
        y = __sinf(1.3f * x) - __cosf(t * y);
        x = nx;
    }
    acc[i] += x * x + y * y;
}

__global__ void tonemap(const float *acc, unsigned char *dst, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = (unsigned char)fminf(255.0f, 64.0f * log1pf(acc[i]));
}
"""


class Framebuffers:
    """The largest allocations, and the event that serializes their use."""

    def __init__(self, dim):
        self.n = dim[0] * dim[1]
        self.d_acc = cuda.mem_alloc(4 * self.n)
        self.acc_read = cuda.Event()


class Output:
    """Destination of one frame: device image, page-locked image, events."""

    def __init__(self, dim):
        self.d_dst = cuda.mem_alloc(dim[0] * dim[1])
        self.h_dst = cuda.pagelocked_empty((dim[1], dim[0]), np.uint8)
        self.start = cuda.Event()
        self.done = cuda.Event()


class RenderManager:
    def __init__(self, dim):
        self.dim = dim
        self.fb = Framebuffers(dim)
        module = SourceModule(SOURCE)
        self.iterate = module.get_function("iterate")
        self.tonemap = module.get_function("tonemap")
        self.streams = [cuda.Stream(), cuda.Stream()]
        self.outputs = [Output(dim), Output(dim)]

    def queue_frame(self, idx, t):
        stream, out, fb = self.streams[idx % 2], self.outputs[idx % 2], self.fb
        block, grid = (256, 1, 1), ((fb.n + 255) // 256, 1)

        stream.wait_for_event(fb.acc_read)
        out.start.record(stream)
        cuda.memset_d32_async(fb.d_acc, 0, fb.n, stream)
        for _ in range(4):
            self.iterate(fb.d_acc, np.int32(fb.n), np.float32(t), block=block, grid=grid, stream=stream)
        self.tonemap(fb.d_acc, out.d_dst, np.int32(fb.n), block=block, grid=grid, stream=stream)
        fb.acc_read.record(stream)

        cuda.memcpy_dtoh_async(out.h_dst, out.d_dst, stream)
        out.done.record(stream)

    def fetch(self, idx):
        out = self.outputs[idx % 2]
        out.done.synchronize()
        return RenderedImage(out.h_dst, idx, out.start.time_till(out.done))

    def render(self, times):
        """Yields the frames in order; a frame is valid until the next one is requested."""
        times = list(times)
        for idx, t in enumerate(times):
            self.queue_frame(idx, t)
            if idx > 0:
                yield self.fetch(idx - 1)
        if times:
            yield self.fetch(len(times) - 1)


def main():
    manager = RenderManager((1920, 1080))
    checksum = 0
    for image in manager.render(np.linspace(1.0, 3.0, 48)):
        checksum += int(image.buf.sum(dtype=np.int64))
        print("frame %d: %.2f ms" % (image.idx, image.gpu_time))
    print("checksum", checksum)


if __name__ == "__main__":
    main()
