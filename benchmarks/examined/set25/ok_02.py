import cupy as cp
import torch
import torch.nn as nn

_SRC = r"""
extern "C" __global__
void gemv_int8(const signed char* w, const float* scale, const float* x, float* y, int n, int k) {
    int row = blockIdx.x;
    __shared__ float acc[256];
    float s = 0.f;
    for (int j = threadIdx.x; j < k; j += blockDim.x) s += (float)w[row * k + j] * x[j];
    acc[threadIdx.x] = s;
    __syncthreads();
    for (int o = 128; o > 0; o >>= 1) {
        if (threadIdx.x < o) acc[threadIdx.x] += acc[threadIdx.x + o];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[row] = acc[0] * scale[row];
}
"""
_kernel = cp.RawKernel(_SRC, "gemv_int8")


def gemv(weight, scale, x):
    n, k = weight.shape
    y = torch.empty(n, dtype=torch.float32, device=weight.device)
    raw = torch.cuda.current_stream(weight.device).cuda_stream
    with cp.cuda.ExternalStream(raw):
        _kernel(
            (n,),
            (256,),
            (weight.data_ptr(), scale.data_ptr(), x.data_ptr(), y.data_ptr(), cp.int32(n), cp.int32(k)),
        )
    return y


class Int8Linear(nn.Module):
    def __init__(self, n, k, device="cuda"):
        super().__init__()
        self.register_buffer("weight", torch.randint(-128, 127, (n, k), dtype=torch.int8, device=device))
        self.register_buffer("scale", torch.rand(n, device=device) * 1e-3)

    def forward(self, x):
        return gemv(self.weight, self.scale, x.contiguous())


class Decoder:
    def __init__(self, depth, width):
        self.layers = [Int8Linear(width, width) for _ in range(depth)]
        self.norm = nn.LayerNorm(width).cuda()
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())

    @torch.inference_mode()
    def step(self, x):
        caller = torch.cuda.current_stream()
        self.stream.wait_stream(caller)
        with torch.cuda.stream(self.stream):
            h = x
            for layer in self.layers:
                h = self.norm(h + torch.relu(layer(h)))
        caller.wait_stream(self.stream)
        x.record_stream(self.stream)
        h.record_stream(caller)
        return h


def main():
    dec = Decoder(6, 2048)
    h = torch.randn(2048, device="cuda")
    for _ in range(64):
        h = dec.step(h)
    print(h.sum().item())


if __name__ == "__main__":
    main()
