from typing import Optional

import torch
from torch import nn


class SharedExpertMoE(nn.Module):
    """Routed experts on the main stream, shared expert on an alternate stream."""

    def __init__(self, dim: int, hidden: int, experts: int, alt_stream: Optional[torch.cuda.Stream] = None):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, dim, hidden) * dim ** -0.5)
        self.w2 = nn.Parameter(torch.randn(experts, hidden, dim) * hidden ** -0.5)
        self.shared = nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))
        self.alt_stream = alt_stream

    def _routed(self, x):
        weights, idx = torch.softmax(self.gate(x), -1).topk(2, dim=-1)
        out = torch.zeros_like(x)
        for k in range(2):
            h = torch.bmm(x.unsqueeze(1), self.w1[idx[:, k]])
            y = torch.bmm(torch.nn.functional.silu(h), self.w2[idx[:, k]]).squeeze(1)
            out += weights[:, k:k + 1] * y
        return out

    def forward_normal(self, x):
        return self._routed(x) + self.shared(x)

    def forward_dual_stream(self, x):
        current = torch.cuda.current_stream()
        self.alt_stream.wait_stream(current)
        with torch.cuda.stream(self.alt_stream):
            shared = self.shared(x)
        routed = self._routed(x)
        current.wait_stream(self.alt_stream)
        return routed.add_(shared)

    def forward(self, x):
        if self.alt_stream is not None and 0 < x.shape[0] <= 128:
            return self.forward_dual_stream(x)
        return self.forward_normal(x)


class Model(nn.Module):
    def __init__(self, layers=8, dim=512):
        super().__init__()
        alt = torch.cuda.Stream()
        self.layers = nn.ModuleList(SharedExpertMoE(dim, 1024, 16, alt) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(self.norm(x))
        return x


@torch.inference_mode()
def main():
    model = Model().cuda()
    for n in (1, 64, 128, 300, 16):
        y = model(torch.randn(n, 512, device="cuda"))
        print(n, y.abs().max().item())


if __name__ == "__main__":
    main()
