"""Applies a CuPy kernel to torch tensors inside a torch pipeline."""
import cupy as cp
import torch

_SATURATE = cp.RawKernel(
    r"""
extern "C" __global__
void saturate(const float* x, float* y, float limit, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[i];
        y[i] = v > limit ? limit : (v < -limit ? -limit : v);
    }
}
""",
    "saturate",
)


def saturate(x, limit):
    if x.dtype != torch.float32:
        raise TypeError("float32 only")
    x = x.contiguous()
    y = torch.empty_like(x)
    n = x.numel()
    if n == 0:
        return y
    handle = torch.cuda.current_stream(x.device).cuda_stream
    with cp.cuda.Device(x.device.index), cp.cuda.ExternalStream(handle):
        blocks = (n + 255) // 256
        _SATURATE(
            (blocks,),
            (256,),
            (x.data_ptr(), y.data_ptr(), cp.float32(limit), cp.int64(n)),
        )
    return y


class SaturatingMixer:
    def __init__(self, width, device="cuda:0"):
        self.device = torch.device(device)
        self.weight = torch.randn(width, width, device=self.device) / width**0.5
        self.side = torch.cuda.Stream(self.device)

    @torch.no_grad()
    def __call__(self, x, limit=1.0):
        main = torch.cuda.current_stream(self.device)
        self.side.wait_stream(main)
        try:
            with torch.cuda.stream(self.side):
                low = saturate(x @ self.weight, limit)
            high = saturate(x * 0.5, 2.0 * limit)
        finally:
            main.wait_stream(self.side)
        low.record_stream(main)
        return low + high


def run(batches, width=512):
    mixer = SaturatingMixer(width)
    out = None
    for x in batches:
        y = mixer(x.to("cuda:0"))
        out = y if out is None else torch.maximum(out, y)
    return None if out is None else out.cpu()
