import cupy as cp
import torch

_DEQUANT = r"""
extern "C" __global__
void dequant(const signed char* q, const float* sf, float* out,
             const long long rows, const long long cols, const long long blk) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i >= rows * cols) return;
    long long r = i / cols, c = i % cols;
    out[i] = q[i] * sf[r * (cols / blk) + c / blk];
}
"""


class DequantFwd:
    """Block-scaled int8 dequantization with a caller-provided launch stream."""

    def __init__(self, sample_q, sample_sf, block=32):
        self.block = block
        self.rows, self.cols = sample_q.shape
        self.sf_shape = (self.rows, self.cols // block)
        if tuple(sample_sf.shape) != self.sf_shape:
            raise ValueError(f"scale factors must be {self.sf_shape}")
        self._compiled_kernel = None

    def compile(self):
        self._compiled_kernel = cp.RawKernel(_DEQUANT, "dequant")
        self._compiled_kernel.compile()
        return self

    def _normalize_sf(self, sf):
        if sf.dtype != torch.float32:
            raise ValueError("scale factors must be float32")
        if not sf.is_contiguous():
            return sf.contiguous()
        return sf

    def execute(self, q, sf, out, current_stream):
        if self._compiled_kernel is None:
            raise RuntimeError("Kernel not compiled; call compile() first")
        sf_c = self._normalize_sf(sf)
        n = self.rows * self.cols
        with cp.cuda.ExternalStream(current_stream):
            self._compiled_kernel(
                ((n + 255) // 256,), (256,),
                (q.data_ptr(), sf_c.data_ptr(), out.data_ptr(),
                 self.rows, self.cols, self.block))
        return sf_c


class WeightStreamer:

    def __init__(self, op, weights):
        self.op = op
        self.weights = weights
        self.stream = torch.cuda.Stream()
        self._staged = []

    def dequantize(self, name):
        q, sf_t = self.weights[name]
        out = torch.empty(q.shape, dtype=torch.float32, device=q.device)
        self.stream.wait_stream(torch.cuda.current_stream())
        self._staged.append(self.op.execute(q, sf_t.t(), out, self.stream.cuda_stream))
        torch.cuda.current_stream().wait_stream(self.stream)
        return out

    def finish(self):
        self.stream.synchronize()
        self._staged.clear()
