"""I/O binding for a session that runs on a user supplied compute stream."""
import numpy as np
from cuda.bindings import driver, nvrtc, runtime as cudart

SRC = rb"""
extern "C" __global__ void mul_mat(const float* x, const float* w, float* y, int m, int k) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= m) return;
    float acc = 0.f;
    for (int j = 0; j < k; ++j) acc += w[i * k + j] * x[j];
    y[i] = acc;
}
"""


def ck(ret):
    err, *vals = ret
    if int(err) != 0:
        raise RuntimeError(str(err))
    return vals[0] if len(vals) == 1 else vals


class OrtValue:
    def __init__(self, shape, host=None):
        self.shape = shape
        self.nbytes = int(np.prod(shape)) * 4
        self.ptr = ck(cudart.cudaMalloc(self.nbytes))
        if host is not None:
            ck(cudart.cudaMemcpy(self.ptr, host.ctypes.data, self.nbytes,
                                 cudart.cudaMemcpyKind.cudaMemcpyHostToDevice))

    def numpy(self):
        out = np.empty(self.shape, dtype=np.float32)
        ck(cudart.cudaMemcpy(out.ctypes.data, self.ptr, self.nbytes,
                             cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost))
        return out


class IoBinding:
    def __init__(self):
        self.inputs, self.outputs = {}, {}

    def bind_input(self, name, value):
        self.inputs[name] = value

    def bind_output(self, name, value):
        self.outputs[name] = value


class Session:
    def __init__(self, weight):
        self.stream = ck(cudart.cudaStreamCreateWithFlags(cudart.cudaStreamNonBlocking))
        self.weight = OrtValue(weight.shape, weight)
        ck(cudart.cudaDeviceSynchronize())
        prog = ck(nvrtc.nvrtcCreateProgram(SRC, b"m.cu", 0, [], []))
        ck(nvrtc.nvrtcCompileProgram(prog, 0, []))
        ptx = b" " * ck(nvrtc.nvrtcGetPTXSize(prog))
        ck(nvrtc.nvrtcGetPTX(prog, ptx))
        self.fn = ck(driver.cuModuleGetFunction(ck(driver.cuModuleLoadData(ptx)), b"mul_mat"))

    def run_with_binding(self, binding):
        x, y = binding.inputs["X"], binding.outputs["Y"]
        m, k = self.weight.shape
        vals = [np.array([int(p)], dtype=np.uint64) for p in (x.ptr, self.weight.ptr, y.ptr)]
        vals += [np.array([m], dtype=np.int32), np.array([k], dtype=np.int32)]
        args = np.array([v.ctypes.data for v in vals], dtype=np.uint64)
        ck(driver.cuLaunchKernel(self.fn, (m + 127) // 128, 1, 1, 128, 1, 1, 0,
                                 int(self.stream), args.ctypes.data, 0))


def main():
    ck(cudart.cudaFree(0))
    rng = np.random.default_rng(0)
    w = rng.random((8192, 4096), dtype=np.float32)
    session = Session(w)
    x = rng.random(4096, dtype=np.float32)
    binding = IoBinding()
    binding.bind_input("X", OrtValue(x.shape, x))
    binding.bind_output("Y", OrtValue((8192,)))
    ck(cudart.cudaDeviceSynchronize())
    session.run_with_binding(binding)
    y = binding.outputs["Y"].numpy()
    print(np.abs(y - w @ x).max())


if __name__ == "__main__":
    main()
