"""Mixture-of-experts block that clears its output on an auxiliary stream."""
import torch
import torch.nn as nn
import torch.nn.functional as F

_AUX_STREAM = {}


def auxiliary_stream(device):
    key = torch.device(device).index or 0
    if key not in _AUX_STREAM:
        _AUX_STREAM[key] = torch.cuda.Stream(device)
    return _AUX_STREAM[key]


class RoutedMLP(nn.Module):
    def __init__(self, hidden, inner, experts, top_k=2, device="cuda"):
        super().__init__()
        self.top_k = top_k
        self.router = nn.Linear(hidden, experts, bias=False, device=device)
        self.w1 = nn.Parameter(torch.randn(experts, hidden, inner, device=device) * 0.02)
        self.w2 = nn.Parameter(torch.randn(experts, inner, hidden, device=device) * 0.02)
        self.aux = auxiliary_stream(device)
        self.cleared = torch.cuda.Event()

    def forward(self, x):
        main = torch.cuda.current_stream(x.device)
        out = torch.empty_like(x)
        with torch.cuda.stream(self.aux):
            out.zero_()
            self.cleared.record(self.aux)

        weights, chosen = self.router(x).softmax(-1).topk(self.top_k, dim=-1)
        pieces = []
        for slot in range(self.top_k):
            w1 = self.w1[chosen[:, slot]]
            w2 = self.w2[chosen[:, slot]]
            h = F.silu(torch.einsum("th,thi->ti", x, w1))
            pieces.append(torch.einsum("ti,tih->th", h, w2) * weights[:, slot, None])

        main.wait_event(self.cleared)
        for piece in pieces:
            out.add_(piece)
        return out


class Decoder(nn.Module):
    def __init__(self, depth, hidden, inner, experts, device="cuda"):
        super().__init__()
        self.blocks = nn.ModuleList(
            RoutedMLP(hidden, inner, experts, device=device) for _ in range(depth)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(hidden, device=device) for _ in range(depth))

    @torch.inference_mode()
    def forward(self, x):
        for norm, block in zip(self.norms, self.blocks):
            x = x + block(norm(x))
        return x


if __name__ == "__main__":
    model = Decoder(depth=12, hidden=512, inner=1024, experts=8).eval()
    tokens = torch.randn(64, 512, device="cuda")
    for _ in range(16):
        tokens = model(tokens)
    print(tokens.float().norm().item())
