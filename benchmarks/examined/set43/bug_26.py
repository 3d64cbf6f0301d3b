"""Decoder block with routed and shared experts on two streams (Triton + torch)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl


@triton.jit
def _combine_kernel(y_ptr, w_ptr, out_ptr, n_tok, hidden, TOPK: tl.constexpr, BLOCK: tl.constexpr):
    tok = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < hidden
    acc = tl.zeros((BLOCK,), dtype=tl.float32)
    for k in range(TOPK):
        w = tl.load(w_ptr + tok * TOPK + k)
        y = tl.load(y_ptr + (tok * TOPK + k) * hidden + cols, mask=mask, other=0.0)
        acc += w * y.to(tl.float32)
    tl.store(out_ptr + tok * hidden + cols, acc.to(out_ptr.dtype.element_ty), mask=mask)


def combine(expert_out, weights, out):
    n_tok, topk, hidden = expert_out.shape
    grid = (n_tok, triton.cdiv(hidden, 512))
    _combine_kernel[grid](expert_out, weights, out, n_tok, hidden, TOPK=topk, BLOCK=512)
    return out


class SharedExpert(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.up = nn.Linear(hidden, 2 * inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        a, b = self.up(x).chunk(2, dim=-1)
        return self.down(F.silu(a) * b)


class RoutedExperts(nn.Module):
    def __init__(self, hidden, inner, experts, topk, inplace=True):
        super().__init__()
        self.topk = topk
        self.inplace = inplace
        self.w1 = nn.Parameter(torch.randn(experts, inner, hidden) * 0.02)
        self.w2 = nn.Parameter(torch.randn(experts, hidden, inner) * 0.02)

    def forward(self, x, probs, ids):
        n, h = x.shape
        y = x.new_empty(n, self.topk, h)
        for k in range(self.topk):
            up = torch.bmm(self.w1[ids[:, k]], x.unsqueeze(-1))
            y[:, k] = torch.bmm(self.w2[ids[:, k]], F.silu(up)).squeeze(-1)
        out = x if self.inplace else torch.empty_like(x)
        return combine(y, probs, out)


class MoEBlock(nn.Module):
    def __init__(self, hidden=1024, inner=512, experts=16, topk=2):
        super().__init__()
        self.gate = nn.Linear(hidden, experts, bias=False)
        self.routed = RoutedExperts(hidden, inner, experts, topk)
        self.shared = SharedExpert(hidden, inner * 4)
        self.norm = nn.RMSNorm(hidden)
        self.topk = topk
        self.alt_stream = torch.cuda.Stream()

    def route(self, x):
        logits = self.gate(x)
        top, ids = logits.float().topk(self.topk, dim=-1)
        return top.softmax(dim=-1), ids

    def forward(self, residual):
        x = self.norm(residual)
        cur = torch.cuda.current_stream()
        self.alt_stream.wait_stream(cur)
        with torch.cuda.stream(self.alt_stream):
            shared_out = self.shared(x)
        probs, ids = self.route(x)
        routed_out = self.routed(x, probs, ids)
        cur.wait_stream(self.alt_stream)
        shared_out.record_stream(cur)
        x.record_stream(self.alt_stream)
        return residual + routed_out + shared_out


@torch.inference_mode()
def decode(blocks, tokens, steps):
    h = tokens
    for _ in range(steps):
        for b in blocks:
            h = b(h)
        h = h / h.float().norm(dim=-1, keepdim=True).to(h.dtype)
    return h


def main():
    torch.manual_seed(0)
    blocks = nn.ModuleList([MoEBlock() for _ in range(4)]).cuda().half()
    x = torch.randn(48, 1024, device="cuda", dtype=torch.float16)
    out = decode(blocks, x, steps=16)
    torch.cuda.synchronize()
    print(out.float().abs().mean().item())


if __name__ == "__main__":
    main()
