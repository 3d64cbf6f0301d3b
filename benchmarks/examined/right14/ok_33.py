"""Runs a CuPy median filter on tensors that PyTorch owns."""
from __future__ import annotations

import cupy as cp
import torch

_SOURCE = r"""
extern "C" __global__
void median3(const float* __restrict__ x, float* __restrict__ y, int h, int w) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    int p = blockIdx.z;
    if (c >= w || r >= h) return;
    float v[9];
    int k = 0;
    for (int dr = -1; dr <= 1; ++dr)
        for (int dc = -1; dc <= 1; ++dc) {
            int rr = min(max(r + dr, 0), h - 1);
            int cc = min(max(c + dc, 0), w - 1);
            v[k++] = x[(p * h + rr) * w + cc];
        }
    for (int i = 0; i < 5; ++i)
        for (int j = i + 1; j < 9; ++j)
            if (v[j] < v[i]) { float t = v[i]; v[i] = v[j]; v[j] = t; }
    y[(p * h + r) * w + c] = v[4];
}
"""

_kernel = cp.RawKernel(_SOURCE, "median3")


def _borrow(tensor: torch.Tensor) -> cp.ndarray:
    memory = cp.cuda.UnownedMemory(
        tensor.data_ptr(), tensor.numel() * tensor.element_size(), tensor, tensor.device.index
    )
    return cp.ndarray(
        tuple(tensor.shape), dtype=cp.float32, memptr=cp.cuda.MemoryPointer(memory, 0)
    )


def median3(x: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    if x.dtype != torch.float32 or not x.is_cuda:
        raise TypeError("expected a float32 CUDA tensor")
    x = x.detach().contiguous()
    if out is None:
        out = torch.empty_like(x)
    if x.numel() == 0:
        return out
    h, w = x.shape[-2:]
    planes = x.numel() // (h * w)
    handle = torch.cuda.current_stream(x.device).cuda_stream
    with cp.cuda.Device(x.device.index):
        with cp.cuda.ExternalStream(handle, x.device.index):
            grid = (-(-w // 32), -(-h // 8), planes)
            _kernel(grid, (32, 8), (_borrow(x), _borrow(out), cp.int32(h), cp.int32(w)))
    return out


class MedianDenoiser(torch.nn.Module):
    def __init__(self, rounds: int) -> None:
        super().__init__()
        self.rounds = rounds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clamp(0, 1)
        for _ in range(self.rounds):
            y = median3(y) * 0.9 + y * 0.1
        return y


def main() -> None:
    device = torch.device("cuda:0")
    denoise = MedianDenoiser(3)
    image = torch.rand(2, 3, 256, 256, device=device)
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        result = denoise(image).mean()
        value = result.item()
    print(value)


if __name__ == "__main__":
    main()
