"""Batched decode state kept on the device, driven through cuda-python and CuPy kernels."""
import cupy as cp
import numpy as np
from cuda.bindings import runtime as rt

SCALE = cp.RawKernel(r"""
extern "C" __global__ void rms_scale(float *x, const float *w, int rows, int cols) {
    int r = blockIdx.x;
    float acc = 0.f;
    for (int c = 0; c < cols; ++c) acc += x[r * cols + c] * x[r * cols + c];
    float s = rsqrtf(acc / cols + 1e-6f);
    for (int c = 0; c < cols; ++c) x[r * cols + c] *= s * w[c];
}
""", "rms_scale")


def check(result):
    err, *rest = result
    if err != rt.cudaError_t.cudaSuccess:
        raise RuntimeError(err)
    return rest[0] if rest else None


class DecodeState:
    def __init__(self, rows, cols):
        self.rows, self.cols = rows, cols
        handle = check(rt.cudaStreamCreateWithFlags(rt.cudaStreamNonBlocking))
        self.handle = handle
        self.stream = cp.cuda.ExternalStream(int(handle))
        self.state = cp.zeros((rows, cols), dtype=cp.float32)
        self.weight = cp.ones(cols, dtype=cp.float32)
        check(rt.cudaDeviceSynchronize())

    def load(self, host):
        check(rt.cudaMemcpy(self.state.data.ptr, host.ctypes.data, host.nbytes,
                            rt.cudaMemcpyKind.cudaMemcpyHostToDevice))

    def step(self, layers):
        for _ in range(layers):
            with self.stream:
                SCALE((self.rows,), (1,), (self.state, self.weight,
                                           np.int32(self.rows), np.int32(self.cols)))

    def results(self):
        out = np.empty((self.rows, self.cols), dtype=np.float32)
        check(rt.cudaMemcpy(out.ctypes.data, self.state.data.ptr, out.nbytes,
                            rt.cudaMemcpyKind.cudaMemcpyDeviceToHost))
        return out

    def close(self):
        check(rt.cudaStreamSynchronize(self.handle))
        check(rt.cudaStreamDestroy(self.handle))


def main():
    state = DecodeState(256, 4096)
    rng = np.random.default_rng(1)
    for _ in range(8):
        state.load(rng.standard_normal((256, 4096), dtype=np.float32))
        check(rt.cudaDeviceSynchronize())
        state.step(12)
        print(float(np.abs(state.results()).mean()))
    state.close()


if __name__ == "__main__":
    main()
