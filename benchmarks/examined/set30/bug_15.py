"""Frame preprocessing on cuda-python: upload, resize, normalise, download on a caller's stream."""
import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc, runtime as cudart

SRC = rb"""
extern "C" __global__ void bilinear(unsigned char* dst, const unsigned char* src,
                                    int dh, int dw, int sh, int sw) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= dw || y >= dh) return;
    float fx = x * (float)sw / dw, fy = y * (float)sh / dh;
    int x0 = (int)fx, y0 = (int)fy, x1 = min(x0 + 1, sw - 1), y1 = min(y0 + 1, sh - 1);
    float ax = fx - x0, ay = fy - y0;
    float top = src[y0 * sw + x0] * (1 - ax) + src[y0 * sw + x1] * ax;
    float low = src[y1 * sw + x0] * (1 - ax) + src[y1 * sw + x1] * ax;
    dst[y * dw + x] = (unsigned char)(top * (1 - ay) + low * ay);
}
extern "C" __global__ void normalise(float* dst, const unsigned char* src, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) dst[i] = (src[i] - 127.5f) / 127.5f;
}
"""


def check(result):
    err, *values = result
    if int(err) != 0:
        raise RuntimeError(str(err))
    return values[0] if len(values) == 1 else values


class Kernels:
    def __init__(self):
        prog = check(nvrtc.nvrtcCreateProgram(SRC, b"prep.cu", 0, [], []))
        check(nvrtc.nvrtcCompileProgram(prog, 0, []))
        ptx = b" " * check(nvrtc.nvrtcGetPTXSize(prog))
        check(nvrtc.nvrtcGetPTX(prog, ptx))
        self.module = check(driver.cuModuleLoadData(np.char.array(ptx).ctypes.data))
        self.bilinear = check(driver.cuModuleGetFunction(self.module, b"bilinear"))
        self.normalise = check(driver.cuModuleGetFunction(self.module, b"normalise"))


def launch(fn, grid, block, stream, values, types):
    check(driver.cuLaunchKernel(fn, *grid, *block, 0, int(stream), (values, types), 0))


class Preprocessor:
    def __init__(self, size, max_bytes):
        check(cudart.cudaFree(0))
        self.kernels = Kernels()
        self.size = size
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.host_in = check(cudart.cudaMallocHost(max_bytes))
        self.host_out = check(cudart.cudaMallocHost(4 * size * size))
        self.src = check(cudart.cudaMalloc(max_bytes))
        self.dst = check(cudart.cudaMalloc(size * size))
        self.out = check(cudart.cudaMalloc(4 * size * size))

    def resize(self, dst, src, shape, stream):
        h, w = shape
        if (h, w) == (self.size, self.size):
            kind = cudart.cudaMemcpyKind.cudaMemcpyDeviceToDevice
            check(cudart.cudaMemcpyAsync(dst, src, h * w, kind, 0))
            return
        side = (self.size + 15) // 16
        types = (ctypes.c_void_p, ctypes.c_void_p) + (ctypes.c_int,) * 4
        launch(self.kernels.bilinear, (side, side, 1), (16, 16, 1), stream,
               (dst, src, self.size, self.size, h, w), types)

    def __call__(self, frame):
        ctypes.memmove(self.host_in, frame.ctypes.data, frame.nbytes)
        up = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
        check(cudart.cudaMemcpyAsync(self.src, self.host_in, frame.nbytes, up, self.stream))
        self.resize(self.dst, self.src, frame.shape, self.stream)
        n = self.size * self.size
        launch(self.kernels.normalise, ((n + 255) // 256, 1, 1), (256, 1, 1), self.stream,
               (self.out, self.dst, n), (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int))
        down = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost
        check(cudart.cudaMemcpyAsync(self.host_out, self.out, 4 * n, down, self.stream))
        check(cudart.cudaStreamSynchronize(self.stream))
        view = (ctypes.c_float * n).from_address(int(self.host_out))
        return np.ctypeslib.as_array(view).reshape(self.size, self.size).copy()


def main(frames, size=640):
    prep = Preprocessor(size, max(f.nbytes for f in frames))
    return [prep(np.ascontiguousarray(f)) for f in frames]


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    print(len(main([rng.integers(0, 255, s, dtype=np.uint8) for s in ((640, 640), (720, 1280))])))
