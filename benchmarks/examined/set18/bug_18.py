"""Dual-stream MoE: shared expert on the alternate stream, routed experts free their input early."""
import torch
import torch.nn.functional as F
from torch import nn


def dispose_tensor(x):
    """Drop the storage of x; used for large activations that have no further reader."""
    x.set_(torch.empty((0,), device=x.device, dtype=x.dtype))


def per_token_quant(x):
    scale = x.abs().amax(dim=-1, keepdim=True).float().clamp_(min=1e-6) / 127.0
    return (x / scale).round().to(torch.int8), scale


class SharedExpert(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class GroupedExperts(nn.Module):
    """Experts with contiguous token groups; the input is quantized first and then disposed."""

    def __init__(self, n_experts, width, hidden):
        super().__init__()
        self.w13 = nn.Parameter(torch.randn(n_experts, width, 2 * hidden) * width**-0.5)
        self.w2 = nn.Parameter(torch.randn(n_experts, hidden, width) * hidden**-0.5)

    def forward(self, hidden_states, order, per_expert):
        q, scale = per_token_quant(hidden_states)
        dispose_tensor(hidden_states)
        tokens = (q.to(torch.bfloat16) * scale.to(torch.bfloat16))[order]
        n_experts = self.w13.shape[0]
        grouped = tokens.view(n_experts, per_expert, -1)
        gate, up = torch.bmm(grouped, self.w13).chunk(2, dim=-1)
        out = torch.bmm(F.silu(gate) * up, self.w2).flatten(0, 1)
        return torch.empty_like(out).index_copy_(0, order, out)


class DualStreamMoE(nn.Module):
    def __init__(self, width, hidden, n_experts, alt_stream):
        super().__init__()
        self.n_experts = n_experts
        self.gate = nn.Linear(width, n_experts, bias=False)
        self.experts = GroupedExperts(n_experts, width, hidden)
        self.shared_experts = SharedExpert(width, 4 * hidden)
        self.alt_stream = alt_stream

    def _balanced_order(self, logits):
        """Capacity routing: every expert takes the same number of tokens."""
        best = logits.argmax(dim=-1)
        return torch.argsort(best, stable=True), logits.shape[0] // self.n_experts

    def forward(self, hidden_states):
        current_stream = torch.cuda.current_stream()
        self.alt_stream.wait_stream(current_stream)
        with torch.cuda.stream(self.alt_stream):
            shared_output = self.shared_experts(hidden_states)
        order, per_expert = self._balanced_order(self.gate(hidden_states))
        routed_output = self.experts(hidden_states, order, per_expert)
        current_stream.wait_stream(self.alt_stream)
        return routed_output.add_(shared_output)


class DecoderLayer(nn.Module):
    def __init__(self, width, heads, moe):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.RMSNorm(width)
        self.norm2 = nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.moe = moe

    def forward(self, x):
        t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(t, 3, self.heads, w // self.heads).permute(1, 2, 0, 3)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(a.transpose(0, 1).reshape(t, w))
        return x + self.moe(self.norm2(x))


@torch.inference_mode()
def prefill(tokens=8192, width=4096, depth=16):
    device = torch.device("cuda", 0)
    alt_stream = torch.cuda.Stream(device)
    layers = [
        DecoderLayer(width, 32, DualStreamMoE(width, 1024, 16, alt_stream)).to(device, torch.bfloat16)
        for _ in range(depth)
    ]
    torch.cuda.synchronize(device)
    x = torch.randn(tokens, width, device=device, dtype=torch.bfloat16)
    for layer in layers:
        x = layer(x)
    return x[-1].float().cpu()
