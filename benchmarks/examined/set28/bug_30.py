"""View-to-texture projection of the mesh faces on the GPU (texture generation back end)."""
import ctypes

import numpy as np
from cuda.bindings import driver, nvrtc
from cuda.bindings import runtime as cudart

H2D = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
D2H = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost

SOURCE = rb"""
extern "C" __global__ void project_faces(const float *faces, const float *P, float *uv, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *X = faces + 3 * i;
    float u = P[0] * X[0] + P[1] * X[1] + P[2] * X[2] + P[3];
    float v = P[4] * X[0] + P[5] * X[1] + P[6] * X[2] + P[7];
    float w = P[8] * X[0] + P[9] * X[1] + P[10] * X[2] + P[11];
    uv[2 * i] = u / w;
    uv[2 * i + 1] = v / w;
}
"""


def check(result):
    err, *rest = result
    if int(err) != 0:
        raise RuntimeError(f"CUDA error {err}")
    return rest[0] if len(rest) == 1 else tuple(rest)


def compile_kernel(name):
    prog = check(nvrtc.nvrtcCreateProgram(SOURCE, b"texture.cu", 0, [], []))
    check(nvrtc.nvrtcCompileProgram(prog, 1, [b"--gpu-architecture=compute_80"]))
    ptx = b" " * check(nvrtc.nvrtcGetPTXSize(prog))
    check(nvrtc.nvrtcGetPTX(prog, ptx))
    module = check(driver.cuModuleLoadData(np.char.array(ptx)))
    return check(driver.cuModuleGetFunction(module, name))


def pinned_array(shape, dtype=np.float32):
    nbytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    ptr = check(cudart.cudaMallocHost(nbytes))
    raw = (ctypes.c_byte * nbytes).from_address(int(ptr))
    return np.frombuffer(raw, dtype=dtype).reshape(shape)


class DeviceBuffer:
    def __init__(self):
        self.ptr = 0
        self.nbytes = 0

    def reallocate_if_not_size(self, nbytes):
        if self.nbytes != nbytes:
            if self.ptr:
                check(cudart.cudaFree(self.ptr))
            self.ptr = int(check(cudart.cudaMalloc(nbytes)))
            self.nbytes = nbytes

    def upload(self, host, stream):
        self.reallocate_if_not_size(host.nbytes)
        check(cudart.cudaMemcpyAsync(self.ptr, host.ctypes.data, host.nbytes, H2D, stream))

    def upload_matrix(self, matrix, stream):
        self.reallocate_if_not_size(matrix.nbytes)
        check(cudart.cudaMemcpyAsync(self.ptr, matrix.ctypes.data, matrix.nbytes, H2D, 0))

    def download(self, host, stream):
        check(cudart.cudaMemcpyAsync(host.ctypes.data, self.ptr, host.nbytes, D2H, stream))


class TextureProjector:
    def __init__(self, faces):
        check(cudart.cudaSetDevice(0))
        self.kernel = compile_kernel(b"project_faces")
        self.stream = check(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.n = faces.shape[0]
        host_faces = pinned_array(faces.shape)
        host_faces[...] = faces
        self.faces, self.camera, self.uv = DeviceBuffer(), DeviceBuffer(), DeviceBuffer()
        self.faces.upload(host_faces, self.stream)
        self.uv.reallocate_if_not_size(8 * self.n)
        self.camera.reallocate_if_not_size(48)
        check(cudart.cudaStreamSynchronize(self.stream))
        self.host_camera = pinned_array((3, 4))
        self.host_uv = pinned_array((self.n, 2))

    def project(self, P):
        self.host_camera[...] = P
        self.camera.upload_matrix(self.host_camera, self.stream)
        values = (self.faces.ptr, self.camera.ptr, self.uv.ptr, self.n)
        types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
        grid = (self.n + 255) // 256
        check(driver.cuLaunchKernel(
            self.kernel, grid, 1, 1, 256, 1, 1, 0, int(self.stream), (values, types), 0))
        self.uv.download(self.host_uv, self.stream)
        check(cudart.cudaStreamSynchronize(self.stream))
        return self.host_uv.copy()


def main():
    rng = np.random.default_rng(0)
    projector = TextureProjector(rng.random((1_000_000, 3), dtype=np.float32))
    views = [projector.project(rng.random((3, 4), dtype=np.float32)) for _ in range(40)]
    print(len(views), views[-1].mean(axis=0))


if __name__ == "__main__":
    main()
