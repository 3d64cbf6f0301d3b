"""Custom rotary kernel in CuPy used by a torch attention layer."""
import cupy as cp
import torch

_rotary = cp.RawKernel(
    r"""
extern "C" __global__ void rotary(float* q, const float* cosv, const float* sinv, int rows, int half) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * half) return;
    int r = i / half, c = i % half;
    float a = q[r * 2 * half + c], b = q[r * 2 * half + half + c];
    q[r * 2 * half + c] = a * cosv[c] - b * sinv[c];
    q[r * 2 * half + half + c] = a * sinv[c] + b * cosv[c];
}
""",
    "rotary",
)


def rotary_(q, cos, sin):
    rows, half = q.shape[0], q.shape[1] // 2
    n = rows * half
    with cp.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream):
        _rotary(
            ((n + 255) // 256,),
            (256,),
            (cp.asarray(q), cp.asarray(cos), cp.asarray(sin), cp.int32(rows), cp.int32(half)),
        )
    return q


class Attention:
    def __init__(self, dim):
        self.wq = torch.randn(dim, dim, device="cuda") / dim ** 0.5
        self.mem = torch.randn(256, dim, device="cuda")
        angle = torch.arange(dim // 2, device="cuda") / 100.0
        self.cos, self.sin = angle.cos(), angle.sin()

    def __call__(self, x):
        q = rotary_((x @ self.wq).contiguous(), self.cos, self.sin)
        return x + (q @ self.mem.T).softmax(-1) @ self.mem


def main(steps=100, dim=512):
    layers = [Attention(dim) for _ in range(8)]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x = torch.randn(16, dim, device="cuda")
        for _ in range(steps):
            for layer in layers:
                x = layer(x)
            x = torch.nn.functional.layer_norm(x, (dim,))
        print(x.norm().item())


if __name__ == "__main__":
    main()
