"""Sliding-window attention through a raw CUDA plan bound to its own stream, next to a gated MLP."""
import cupy as cp
import numpy as np
import torch
from torch import nn

SOURCE = r"""
extern "C" __global__ void window_scores(const float *q, const float *k, float *ws,
                                         int rows, int dim, int window)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * window) return;
    int r = i / window, j = r - (i - r * window);
    float acc = -1e30f;
    if (j >= 0) {
        acc = 0.f;
        for (int d = 0; d < dim; ++d) acc += q[(size_t)r * dim + d] * k[(size_t)j * dim + d];
    }
    ws[i] = acc;
}

extern "C" __global__ void window_apply(const float *ws, const float *v, float *out,
                                        int rows, int dim, int window)
{
    int r = blockIdx.x, d = threadIdx.x;
    if (d >= dim) return;
    float top = -1e30f, norm = 0.f, acc = 0.f;
    for (int w = 0; w < window; ++w) top = fmaxf(top, ws[(size_t)r * window + w]);
    for (int w = 0; w < window && r - w >= 0; ++w) {
        float p = __expf(ws[(size_t)r * window + w] - top);
        norm += p;
        acc += p * v[(size_t)(r - w) * dim + d];
    }
    out[(size_t)r * dim + d] = acc / norm;
}
"""


class SlidingWindowPlan:
    def __init__(self, dim: int, window: int, stream: torch.cuda.Stream):
        module = cp.RawModule(code=SOURCE)
        self._scores = module.get_function("window_scores")
        self._apply = module.get_function("window_apply")
        self.dim, self.window = dim, window
        self.stream = stream

    def workspace_bytes(self, rows: int) -> int:
        return rows * self.window * 4

    def execute(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor) -> None:
        rows = q.shape[0]
        workspace = torch.empty(self.workspace_bytes(rows), dtype=torch.uint8, device=q.device)
        sizes = (np.int32(rows), np.int32(self.dim), np.int32(self.window))
        grid = ((rows * self.window + 255) // 256,)
        with cp.cuda.ExternalStream(self.stream.cuda_stream, q.device.index):
            self._scores(grid, (256,), (q.data_ptr(), k.data_ptr(), workspace.data_ptr(), *sizes))
            self._apply((rows,), (self.dim,), (workspace.data_ptr(), v.data_ptr(), out.data_ptr(), *sizes))


class ParallelBlock(nn.Module):
    """Attention and MLP read the same input and run side by side."""

    def __init__(self, dim: int, inner: int, window: int):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.gate = nn.Linear(dim, inner, bias=False)
        self.up = nn.Linear(dim, inner, bias=False)
        self.down = nn.Linear(inner, dim, bias=False)
        self.stream = torch.cuda.Stream()
        self.plan = SlidingWindowPlan(dim, window, self.stream)

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        current = torch.cuda.current_stream()
        q, k, v = (t.contiguous() for t in self.qkv(x).chunk(3, dim=-1))
        attended = torch.empty_like(q)
        self.stream.wait_stream(current)
        self.plan.execute(q, k, v, attended)
        hidden = nn.functional.silu(self.gate(x)) * self.up(x)
        mlp = self.down(hidden)
        current.wait_stream(self.stream)
        return x + attended + mlp


def main() -> None:
    torch.cuda.set_device(0)
    blocks = nn.Sequential(*[ParallelBlock(256, 512, 512) for _ in range(8)]).cuda()
    x = torch.randn(16384, 256, device="cuda")
    for _ in range(20):
        y = blocks(x)
    print(y.norm().item())


if __name__ == "__main__":
    main()
