"""Region extractor on the CUDA runtime: upload, crop and readback."""
import ctypes

import numpy as np
from cuda.bindings import runtime as cudart


def check(result):
    err, *rest = result
    if err != cudart.cudaError_t.cudaSuccess:
        raise RuntimeError(cudart.cudaGetErrorString(err)[1].decode())
    return rest[0] if rest else None


def pinned(shape, dtype=np.uint8):
    n = int(np.prod(shape)) * np.dtype(dtype).itemsize
    ptr = check(cudart.cudaMallocHost(n))
    raw = (ctypes.c_uint8 * n).from_address(int(ptr))
    return np.frombuffer(raw, dtype=dtype).reshape(shape)


H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2D = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


class RoiExtractor:
    def __init__(self, h, w, roi):
        self.h, self.w, (self.rh, self.rw) = h, w, roi
        flags = cudart.cudaStreamNonBlocking
        self.upload = check(cudart.cudaStreamCreateWithFlags(flags))
        self.crop = check(cudart.cudaStreamCreateWithFlags(flags))
        self.uploaded = check(cudart.cudaEventCreate())
        self.frame = check(cudart.cudaMalloc(h * w))
        self.region = check(cudart.cudaMalloc(self.rh * self.rw))
        self.host_in = pinned((h, w))
        self.host_out = pinned(roi)

    def extract(self, image, y, x):
        self.host_in[:] = image
        check(cudart.cudaMemcpyAsync(self.frame, self.host_in.ctypes.data, self.h * self.w, H2D, self.upload))
        check(cudart.cudaEventRecord(self.uploaded, self.upload))
        check(cudart.cudaStreamWaitEvent(self.crop, self.uploaded, 0))
        src = int(self.frame) + y * self.w + x
        check(cudart.cudaMemcpy2DAsync(self.region, self.rw, src, self.w, self.rw, self.rh, D2D, self.crop))
        check(cudart.cudaMemcpyAsync(self.host_out.ctypes.data, self.region, self.rh * self.rw, D2H, self.crop))
        check(cudart.cudaStreamSynchronize(self.crop))
        return self.host_out.copy()


def main():
    rng = np.random.default_rng(0)
    extractor = RoiExtractor(2160, 3840, (256, 256))
    for i in range(100):
        image = rng.integers(0, 255, (2160, 3840), dtype=np.uint8)
        patch = extractor.extract(image, 16 * i, 30 * i)
        assert (patch == image[16 * i:16 * i + 256, 30 * i:30 * i + 256]).all()


if __name__ == "__main__":
    main()
