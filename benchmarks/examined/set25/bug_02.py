import cupy as cp
import torch
import torch.distributed as dist
import torch.nn as nn

_SRC = r"""
extern "C" __global__
void dequantize_weights(const int* qweight, const float* scales, const int* zeros,
                        float* out, int rows, int cols, int group) {
    int idx = blockIdx.x * blockDim.x + threadIdx.x;
    if (idx >= rows * cols) return;
    int r = idx / cols, c = idx % cols;
    int q = (qweight[r * (cols / 8) + c / 8] >> (4 * (c % 8))) & 0xF;
    int g = (r / group) * cols + c;
    out[idx] = (float)(q - zeros[g]) * scales[g];
}
"""
_kernel = cp.RawKernel(_SRC, "dequantize_weights")


def dequantize_weights(qweight, scales, zeros, group):
    """Expand packed int4 weights into a float matrix."""
    rows, cols = qweight.shape[0], qweight.shape[1] * 8
    out = torch.empty(rows, cols, dtype=torch.float32, device=qweight.device)
    total = rows * cols
    _kernel(
        ((total + 255) // 256,),
        (256,),
        (
            qweight.data_ptr(), scales.data_ptr(), zeros.data_ptr(), out.data_ptr(),
            cp.int32(rows), cp.int32(cols), cp.int32(group),
        ),
    )
    return out


class WQLinearRowParallel(nn.Module):
    def __init__(self, in_features, out_features, group=128, device="cuda"):
        super().__init__()
        self.group = group
        self.register_buffer(
            "qweight", torch.randint(0, 2**31 - 1, (in_features, out_features // 8), dtype=torch.int32, device=device)
        )
        self.register_buffer("scales", torch.rand(in_features // group, out_features, device=device))
        self.register_buffer(
            "zeros", torch.randint(0, 16, (in_features // group, out_features), dtype=torch.int32, device=device)
        )

    def forward(self, x):
        weight = dequantize_weights(self.qweight, self.scales, self.zeros, self.group)
        y = torch.matmul(x, weight)
        dist.all_reduce(y)
        return y


class DecodeEngine:
    def __init__(self, layers):
        self.layers = layers
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    @torch.inference_mode()
    def decode(self, hidden):
        self.stream.wait_stream(torch.cuda.current_stream())
        hidden.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            for layer in self.layers:
                hidden = torch.nn.functional.silu(layer(hidden))
        torch.cuda.current_stream().wait_stream(self.stream)
        hidden.record_stream(torch.cuda.current_stream())
        return hidden


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank())
    cp.cuda.Device(dist.get_rank()).use()
    layers = [WQLinearRowParallel(4096, 4096) for _ in range(4)]
    torch.cuda.synchronize()
    engine = DecodeEngine(layers)
    for _ in range(32):
        out = engine.decode(torch.randn(8, 4096, device="cuda"))
    print(out.norm().item())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
