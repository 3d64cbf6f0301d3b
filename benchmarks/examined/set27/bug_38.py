"""Decodes raw Bayer packets to NV12 surfaces and downloads them, each tool with its own stream."""
import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

SRC = r"""
__device__ float sample(const unsigned short* raw, int w, int h, int x, int y) {
    x = min(max(x, 0), w - 1); y = min(max(y, 0), h - 1);
    return raw[y * w + x] * (1.0f / 4095.0f);
}
__global__ void luma(const unsigned short* raw, unsigned char* nv12, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float acc = 0.0f;
    for (int dy = -3; dy <= 3; ++dy)
        for (int dx = -3; dx <= 3; ++dx) acc += sample(raw, w, h, x + dx, y + dy);
    nv12[y * w + x] = (unsigned char)(16.0f + 219.0f * acc / 49.0f);
}
__global__ void chroma(const unsigned short* raw, unsigned char* nv12, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w / 2 || y >= h / 2) return;
    unsigned char* uv = nv12 + w * h + y * w + 2 * x;
    float r = sample(raw, w, h, 2 * x, 2 * y), b = sample(raw, w, h, 2 * x + 1, 2 * y + 1);
    float g = sample(raw, w, h, 2 * x + 1, 2 * y);
    uv[0] = (unsigned char)(128.0f + 112.0f * (b - g));
    uv[1] = (unsigned char)(128.0f + 112.0f * (r - g));
}
"""


class Surface:
    """NV12 picture in device memory."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.host_size = width * height * 3 // 2
        self.gpu = cuda.mem_alloc(self.host_size)


class PyDecoder:
    def __init__(self, reader, width, height):
        self.reader = reader
        self.width, self.height = width, height
        self.stream = cuda.Stream()
        self.packet = cuda.mem_alloc(width * height * 2)
        module = SourceModule(SRC)
        self.luma = module.get_function("luma")
        self.chroma = module.get_function("chroma")

    def decode_single_surface(self, surface):
        data = next(self.reader, None)
        if data is None:
            return False
        cuda.memcpy_htod(self.packet, data)
        w, h = np.int32(self.width), np.int32(self.height)
        block = (32, 8, 1)
        self.luma(self.packet, surface.gpu, w, h, block=block,
                  grid=((self.width + 31) // 32, (self.height + 7) // 8), stream=self.stream)
        self.chroma(self.packet, surface.gpu, w, h, block=block,
                    grid=((self.width // 2 + 31) // 32, (self.height // 2 + 7) // 8),
                    stream=self.stream)
        return True


class PySurfaceDownloader:
    def __init__(self):
        self.stream = cuda.Stream()

    def run(self, surface, host):
        if host.nbytes != surface.host_size:
            return False
        cuda.memcpy_dtoh_async(host, surface.gpu, self.stream)
        self.stream.synchronize()
        return True


def packets(count, width, height):
    gen = np.random.default_rng(0)
    first = gen.integers(0, 4096, (height, width), dtype=np.uint16)
    for i in range(count):
        yield np.ascontiguousarray(np.roll(first, 16 * i, axis=0))


def main(width=5760, height=2880, count=120):
    decoder = PyDecoder(packets(count, width, height), width, height)
    downloader = PySurfaceDownloader()
    surface = Surface(width, height)
    picture = cuda.pagelocked_empty(surface.host_size, np.uint8)
    checksums = []
    while decoder.decode_single_surface(surface):
        if downloader.run(surface, picture):
            checksums.append(int(picture.astype(np.uint64).sum()))
    print(len(checksums), checksums[:4])


if __name__ == "__main__":
    main()
