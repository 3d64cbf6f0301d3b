"""Fused rotary embedding written in CuPy and called from PyTorch code."""
import cupy
import torch
from torch import nn

_ROTATE = cupy.RawKernel(r"""
extern "C" __global__
void rotate(const float* x, const float* angle, float* y, int rows, int half, int length, float sign) {
    long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x;
    if (i >= (long long)rows * half) return;
    int r = i / half, c = i % half;
    float s, co;
    sincosf(angle[(r % length) * half + c], &s, &co);
    s *= sign;
    const float* in = x + (long long)r * 2 * half;
    float* out = y + (long long)r * 2 * half;
    out[c] = in[c] * co - in[c + half] * s;
    out[c + half] = in[c + half] * co + in[c] * s;
}
""", "rotate")


def _launch(x: torch.Tensor, angle: torch.Tensor, sign: float) -> torch.Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    half = x.shape[-1] // 2
    rows = x.numel() // x.shape[-1]
    stream = torch.cuda.current_stream(x.device)
    with cupy.cuda.Device(x.device.index), cupy.cuda.ExternalStream(stream.cuda_stream):
        args = tuple(cupy.from_dlpack(t.detach()) for t in (x, angle, y))
        blocks = (rows * half + 255) // 256
        if blocks:
            _ROTATE((blocks,), (256,), (
                *args, cupy.int32(rows), cupy.int32(half), cupy.int32(angle.shape[0]), cupy.float32(sign)))
    return y


class _Rotary(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, angle):
        ctx.save_for_backward(angle)
        return _launch(x, angle, 1.0)

    @staticmethod
    def backward(ctx, grad):
        (angle,) = ctx.saved_tensors
        return _launch(grad, angle, -1.0), None


class RotaryAttention(nn.Module):
    def __init__(self, dim: int, heads: int, max_length: int):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        half = dim // heads // 2
        freq = 10000.0 ** (-torch.arange(half, dtype=torch.float32) / half)
        self.register_buffer("angle", torch.arange(max_length)[:, None].float() * freq)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, dim = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        angle = self.angle[:length].contiguous()
        q, k = _Rotary.apply(q, angle), _Rotary.apply(k, angle)
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        return out.transpose(1, 2).reshape(batch, length, dim)


def encode(layer: RotaryAttention, tokens: torch.Tensor, side: bool) -> torch.Tensor:
    if not side:
        return layer(tokens).mean(dim=1)
    caller = torch.cuda.current_stream(tokens.device)
    stream = torch.cuda.Stream(device=tokens.device)
    stream.wait_stream(caller)
    tokens.record_stream(stream)
    try:
        with torch.cuda.stream(stream):
            out = layer(tokens).mean(dim=1)
    finally:
        caller.wait_stream(stream)
    out.record_stream(caller)
    return out
