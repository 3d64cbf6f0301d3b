"""Torch autograd function whose kernels are CuPy raw kernels."""
from __future__ import annotations

import cupy as cp
import torch

_SRC = r"""
extern "C" __global__
void swish_fwd(const float* x, float* y, float beta, long long n) {
    long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) y[i] = x[i] / (1.0f + expf(-beta * x[i]));
}
extern "C" __global__
void swish_bwd(const float* x, const float* gy, float* gx, float beta, long long n) {
    long long i = (long long)blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        float s = 1.0f / (1.0f + expf(-beta * x[i]));
        gx[i] = gy[i] * (s + beta * x[i] * s * (1.0f - s));
    }
}
"""
_MODULE = cp.RawModule(code=_SRC)
_BLOCK = 256


def _launch(name: str, tensors: list[torch.Tensor], beta: float) -> None:
    first = tensors[0]
    count = first.numel()
    if count == 0:
        return
    stream = torch.cuda.current_stream(first.device)
    with cp.cuda.Device(first.device.index), cp.cuda.ExternalStream(stream.cuda_stream):
        kernel = _MODULE.get_function(name)
        pointers = tuple(tensor.data_ptr() for tensor in tensors)
        grid = ((count + _BLOCK - 1) // _BLOCK,)
        kernel(grid, (_BLOCK,), (*pointers, cp.float32(beta), cp.int64(count)))


class _Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: torch.Tensor, beta: float) -> torch.Tensor:
        if x.dtype != torch.float32 or not x.is_cuda:
            raise TypeError("float32 CUDA tensors only")
        x = x.contiguous()
        y = torch.empty_like(x)
        _launch("swish_fwd", [x, y], beta)
        ctx.save_for_backward(x)
        ctx.beta = beta
        return y

    @staticmethod
    def backward(ctx, grad_y: torch.Tensor):
        (x,) = ctx.saved_tensors
        grad_y = grad_y.contiguous()
        grad_x = torch.empty_like(x)
        _launch("swish_bwd", [x, grad_y, grad_x], ctx.beta)
        return grad_x, None


class Swish(torch.nn.Module):
    def __init__(self, beta: float = 1.0):
        super().__init__()
        self.beta = beta

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _Swish.apply(x, self.beta)


def train(steps: int, device: torch.device) -> float:
    model = torch.nn.Sequential(
        torch.nn.Linear(32, 128), Swish(1.5), torch.nn.Linear(128, 128), Swish(), torch.nn.Linear(128, 1)
    ).to(device)
    optim = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x = torch.randn(256, 32, device=device)
        loss = (model(x) - x.norm(dim=1, keepdim=True)).square().mean()
        optim.zero_grad(set_to_none=True)
        loss.backward()
        optim.step()
    return loss.item()


def main() -> None:
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    print(train(100, device))
    side = torch.cuda.Stream(device=device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        print(train(100, device))


if __name__ == "__main__":
    main()
