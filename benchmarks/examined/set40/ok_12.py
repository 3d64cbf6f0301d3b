"""Dual-stream MoE layer: shared expert on a side stream, routed experts on the caller's."""
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def silu_mul_kernel(x_ptr, out_ptr, half, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < half
    gate = tl.load(x_ptr + row * 2 * half + cols, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * 2 * half + half + cols, mask=mask, other=0.0).to(tl.float32)
    y = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + row * half + cols, y.to(out_ptr.dtype.element_ty), mask=mask)


def silu_mul(x):
    rows, width = x.shape
    out = torch.empty(rows, width // 2, dtype=x.dtype, device=x.device)
    grid = (rows, triton.cdiv(width // 2, 512))
    silu_mul_kernel[grid](x, out, width // 2, BLOCK=512)
    return out


class Expert(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.gate_up = nn.Linear(dim, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.down(silu_mul(self.gate_up(x)))


class MoELayer(nn.Module):
    def __init__(self, dim, hidden, experts, top_k, alt_stream):
        super().__init__()
        self.shared = Expert(dim, 2 * hidden)
        self.experts = nn.ModuleList(Expert(dim, hidden) for _ in range(experts))
        self.gate = nn.Linear(dim, experts, bias=False)
        self.top_k = top_k
        self.alt_stream = alt_stream

    def _routed(self, x):
        weight, index = self.gate(x).softmax(-1).topk(self.top_k, dim=-1)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            w = (weight * (index == e)).sum(-1, keepdim=True)
            out.addcmul_(expert(x), w.to(x.dtype))
        return out

    def forward_normal(self, x):
        return self._routed(x).add_(self.shared(x))

    def forward_dual_stream(self, x):
        current = torch.cuda.current_stream()
        self.alt_stream.wait_stream(current)
        with torch.cuda.stream(self.alt_stream):
            shared = self.shared(x)
        routed = self._routed(x)
        current.wait_stream(self.alt_stream)
        shared.record_stream(current)
        return routed.add_(shared)

    def forward(self, x):
        if x.shape[0] <= 1024:
            return self.forward_dual_stream(x)
        return self.forward_normal(x)


class Decoder(nn.Module):
    def __init__(self, dim=2048, hidden=1024, layers=8):
        super().__init__()
        alt = torch.cuda.Stream()
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.moes = nn.ModuleList(MoELayer(dim, hidden, 8, 2, alt) for _ in range(layers))

    def forward(self, x):
        for norm, moe in zip(self.norms, self.moes):
            x = x + moe(norm(x))
        return x


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    model = Decoder().cuda().half()
    for tokens in (16, 256, 4096):
        x = torch.randn(tokens, 2048, device="cuda", dtype=torch.half)
        for _ in range(4):
            x = model(x) / 2
        print(tokens, x.float().abs().mean().item())


if __name__ == "__main__":
    main()
