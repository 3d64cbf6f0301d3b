"""Mixture-of-experts block whose shared expert runs on an auxiliary stream."""
import torch
import torch.nn.functional as F
from torch import nn

_AUX_STREAM = None


def aux_stream(device):
    global _AUX_STREAM
    if _AUX_STREAM is None:
        _AUX_STREAM = torch.cuda.Stream(device=device)
    return _AUX_STREAM


class GatedMLP(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.gate_up = nn.Linear(hidden, 2 * inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class RoutedExperts(nn.Module):
    """Top-k experts. With ``inplace`` the output takes the place of the input."""

    def __init__(self, num_experts, hidden, inner, top_k, inplace=True):
        super().__init__()
        self.w13 = nn.Parameter(torch.randn(num_experts, hidden, 2 * inner) * 0.02)
        self.w2 = nn.Parameter(torch.randn(num_experts, inner, hidden) * 0.02)
        self.top_k = top_k
        self.inplace = inplace

    def forward(self, hidden_states, router_logits):
        weights, ids = router_logits.softmax(dim=-1).topk(self.top_k, dim=-1)
        acc = torch.zeros_like(hidden_states)
        for expert in range(self.w13.shape[0]):
            gate, up = (hidden_states @ self.w13[expert]).chunk(2, dim=-1)
            y = (F.silu(gate) * up) @ self.w2[expert]
            share = (weights * (ids == expert)).sum(dim=-1, keepdim=True)
            acc.addcmul_(y, share)
        if self.inplace:
            hidden_states.copy_(acc)
            return hidden_states
        return acc


class SharedFusedMoE(nn.Module):
    def __init__(self, hidden=2048, inner=1024, num_experts=16, top_k=4, device="cuda"):
        super().__init__()
        self.router = nn.Linear(hidden, num_experts, bias=False, device=device)
        self.shared_experts = GatedMLP(hidden, 2 * inner).to(device)
        self.experts = RoutedExperts(num_experts, hidden, inner, top_k).to(device)
        self.shared_experts_stream = aux_stream(device)

    def forward(self, hidden_states):
        router_logits = self.router(hidden_states)
        stream = self.shared_experts_stream
        main = torch.cuda.current_stream(hidden_states.device)

        stream.wait_stream(main)
        with torch.cuda.stream(stream):
            hidden_states_clone = hidden_states.clone()
            shared_output = self.shared_experts(hidden_states_clone)

        routed_output = self.experts(hidden_states, router_logits)

        main.wait_stream(stream)
        return routed_output.add_(shared_output)


class Decoder(nn.Module):
    def __init__(self, layers=8, hidden=2048, device="cuda"):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(hidden, device=device) for _ in range(layers))
        self.blocks = nn.ModuleList(SharedFusedMoE(hidden, device=device) for _ in range(layers))

    @torch.inference_mode()
    def forward(self, x):
        for norm, block in zip(self.norms, self.blocks):
            x = x + block(norm(x))
        return x


if __name__ == "__main__":
    model = Decoder()
    tokens = torch.randn(256, 2048, device="cuda")
    for _ in range(4):
        tokens = model(tokens)
    print(float(tokens.mean()))
