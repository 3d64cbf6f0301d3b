import cupy as cp
import numpy as np

_im2col = cp.RawKernel(
    r"""
extern "C" __global__
void im2col3x3(const float* x, float* cols, int n, int c) {
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    if (t >= n * 64) return;
    int b = t / 64, sq = t % 64, r = sq / 8, f = sq % 8;
    for (int ch = 0; ch < c; ++ch)
        for (int k = 0; k < 9; ++k) {
            int rr = r + k / 3 - 1, ff = f + k % 3 - 1;
            bool in = rr >= 0 && rr < 8 && ff >= 0 && ff < 8;
            cols[(size_t)t * c * 9 + ch * 9 + k] = in ? x[(b * c + ch) * 64 + rr * 8 + ff] : 0.f;
        }
}
""",
    "im2col3x3",
)

_transpose_scale = cp.ElementwiseKernel("T w, T gamma", "T y", "y = w * gamma", "fold_bn")


class ConvLayer:
    def __init__(self, c_in, c_out):
        self.c_in, self.c_out = c_in, c_out
        self.weights = cp.empty((c_in * 9, c_out), dtype=cp.float32)

    def load_weights(self, w, gamma, scratch, stream):
        n = w.size
        with stream:
            staged = scratch[:n].reshape(self.c_in * 9, self.c_out)
            staged.set(np.ascontiguousarray(w.reshape(self.c_out, -1).T), stream=stream)
            _transpose_scale(staged, cp.float32(gamma), self.weights)

    def eval(self, x, scratch, out, stream):
        n = x.shape[0]
        cols = scratch[: n * 64 * self.c_in * 9]
        threads = 128
        _im2col(((n * 64 + threads - 1) // threads,), (threads,), (x, cols, np.int32(n), np.int32(self.c_in)), stream=stream)
        cp.matmul(cols.reshape(n * 64, self.c_in * 9), self.weights, out=out)


class CudaNetwork:
    def __init__(self, file, max_batch=256, filters=128):
        self.max_batch = max_batch
        self.upload_stream = cp.cuda.Stream(non_blocking=True)
        self.compute_stream = cp.cuda.Stream(non_blocking=True)
        self.scratch = cp.empty(max_batch * 64 * filters * 9, dtype=cp.float32)
        self.act = cp.empty((max_batch, filters, 64), dtype=cp.float32)
        self.out = cp.empty((max_batch * 64, filters), dtype=cp.float32)
        self.layers = []
        for w, gamma in zip(file["conv"], file["gamma"]):
            layer = ConvLayer(w.shape[1], w.shape[0])
            layer.load_weights(w, gamma, self.scratch, self.upload_stream)
            self.layers.append(layer)

    def forward(self, planes):
        n = planes.shape[0]
        with self.compute_stream:
            x = self.act[:n]
            x.set(planes, stream=self.compute_stream)
            for layer in self.layers:
                layer.eval(x, self.scratch, self.out[: n * 64], self.compute_stream)
                y = self.out[: n * 64].reshape(n, 64, layer.c_out).transpose(0, 2, 1)
                cp.maximum(y, 0, out=x)
            result = x.get(stream=self.compute_stream)
        return result
