"""Quantised matmul front end with a cached split-K workspace, used by a two-branch MoE block."""
import functools

import torch
from torch import nn

DEFAULT_WORKSPACE_SIZE = 32 * 1024 * 1024
SPLIT_K = 4


@functools.lru_cache(maxsize=None)
def _get_cache_buf(name, nbytes, device):
    return torch.empty(nbytes, dtype=torch.uint8, device=device)


def mm_splitk(a, b):
    """a [M, K] @ b [K, N]; partial products live in the shared workspace."""
    m, k = a.shape
    n = b.shape[1]
    buf = _get_cache_buf("mm_workspace", DEFAULT_WORKSPACE_SIZE, a.device)
    need = SPLIT_K * m * n * 4
    if need > buf.numel():
        raise ValueError("problem too large for the split-K workspace")
    partial = buf[:need].view(torch.float32).view(SPLIT_K, m, n)
    a_parts = a.view(m, SPLIT_K, k // SPLIT_K).transpose(0, 1)
    b_parts = b.view(SPLIT_K, k // SPLIT_K, n)
    torch.bmm(a_parts.float(), b_parts.float(), out=partial)
    return partial.sum(dim=0).to(a.dtype)


class QuantLinear(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        w = torch.randn(in_features, out_features) * in_features**-0.5
        self.register_buffer("scale", w.abs().amax() / 127.0)
        self.register_buffer("weight", (w / self.scale).round().to(torch.int8))

    def forward(self, x):
        return mm_splitk(x, self.weight.to(x.dtype)) * self.scale.to(x.dtype)


class GatedMLP(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate = QuantLinear(dim, hidden)
        self.up = QuantLinear(dim, hidden)
        self.down = QuantLinear(hidden, dim)

    def forward(self, x):
        return self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))


class TwoBranchMoE(nn.Module):
    """Routed experts on the main stream, the shared expert next to them."""

    def __init__(self, dim=1024, hidden=2048, experts=4):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(GatedMLP(dim, hidden) for _ in range(experts))
        self.shared = GatedMLP(dim, hidden)
        self.alt_stream = torch.cuda.Stream()

    def _routed(self, x):
        weight = self.router(x).softmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            out += weight[:, i : i + 1] * expert(x)
        return out

    def forward(self, x):
        main = torch.cuda.current_stream()
        self.alt_stream.wait_stream(main)
        with torch.cuda.stream(self.alt_stream):
            shared = self.shared(x)
        routed = self._routed(x)
        main.wait_stream(self.alt_stream)
        x.record_stream(self.alt_stream)
        shared.record_stream(main)
        return routed + shared


@torch.inference_mode()
def main():
    block = TwoBranchMoE().cuda().half()
    x = torch.randn(256, 1024, device="cuda", dtype=torch.float16)
    for _ in range(50):
        x = torch.nn.functional.layer_norm(x + block(x), (1024,))
    print(x.float().norm().item())


if __name__ == "__main__":
    main()
