import torch
import torch.nn as nn
import torch.nn.functional as F

_AUX_STREAMS = {}


def aux_stream(device: torch.device) -> torch.cuda.Stream:
    if device not in _AUX_STREAMS:
        _AUX_STREAMS[device] = torch.cuda.Stream(device)
    return _AUX_STREAMS[device]


class GatedMLP(nn.Module):
    def __init__(self, dim: int, inner: int):
        super().__init__()
        self.up = nn.Linear(dim, 2 * inner, bias=False)
        self.down = nn.Linear(inner, dim, bias=False)

    def forward(self, x):
        gate, up = self.up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class RoutedExperts(nn.Module):
    def __init__(self, num_experts: int, dim: int, inner: int, top_k: int):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(num_experts, dim, inner) * 0.02)
        self.w2 = nn.Parameter(torch.randn(num_experts, inner, dim) * 0.02)
        self.top_k = top_k

    def forward(self, x: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        weights, ids = scores.topk(self.top_k, dim=-1)
        acc = torch.zeros_like(x)
        for k in range(self.top_k):
            w1 = self.w1[ids[:, k]]
            w2 = self.w2[ids[:, k]]
            h = F.silu(torch.bmm(x.unsqueeze(1), w1))
            acc.addcmul_(torch.bmm(h, w2).squeeze(1), weights[:, k : k + 1])
        x.copy_(acc)
        return x


class MoEBlock(nn.Module):
    """Routed experts with a shared expert that overlaps them at small batch sizes."""

    def __init__(self, dim=1024, inner=512, num_experts=32, top_k=4, overlap_limit=256):
        super().__init__()
        self.router = nn.Linear(dim, num_experts, bias=False)
        self.experts = RoutedExperts(num_experts, dim, inner, top_k)
        self.shared = GatedMLP(dim, 2 * inner)
        self.overlap_limit = overlap_limit

    @torch.inference_mode()
    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        scores = self.router(hidden).softmax(dim=-1)
        if hidden.shape[0] > self.overlap_limit:
            shared = self.shared(hidden)
            return self.experts(hidden, scores) + shared

        main = torch.cuda.current_stream(hidden.device)
        side = aux_stream(hidden.device)
        side.wait_stream(main)
        with torch.cuda.stream(side):
            shared = self.shared(hidden)
        routed = self.experts(hidden, scores)
        main.wait_stream(side)
        shared.record_stream(main)
        return routed.add_(shared)
