"""Mixture-of-experts layer whose shared expert runs beside the routed ones."""
import torch
from torch import nn


class MixtureLayer(nn.Module):
    def __init__(self, width, hidden, experts, top_k, overlap_below=4096):
        super().__init__()
        self.top_k = top_k
        self.overlap_below = overlap_below
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) / width ** 0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) / hidden ** 0.5)
        self.shared = nn.Sequential(nn.Linear(width, hidden), nn.SiLU(),
                                    nn.Linear(hidden, width))
        self._side = None

    def _stream(self, device):
        if self._side is None or self._side.device != device:
            self._side = torch.cuda.Stream(device)
        return self._side

    def _routed(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(self.top_k, dim=-1)
        out = torch.zeros_like(x)
        for k in range(self.top_k):
            up = self.up[chosen[:, k]]
            down = self.down[chosen[:, k]]
            hidden = torch.nn.functional.silu(torch.bmm(x.unsqueeze(1), up))
            out += torch.bmm(hidden, down).squeeze(1) * weights[:, k:k + 1]
        return out

    @torch.no_grad()
    def forward(self, x):
        overlap = x.is_cuda and x.shape[0] <= self.overlap_below
        if not overlap:
            return self._routed(x).add_(self.shared(x))
        current = torch.cuda.current_stream(x.device)
        side = self._stream(x.device)
        shared = torch.empty_like(x)
        side.wait_stream(current)
        try:
            with torch.cuda.stream(side):
                shared.copy_(self.shared(x))
            routed = self._routed(x)
        finally:
            current.wait_stream(side)
        return routed.add_(shared)


def main():
    device = torch.device("cuda", torch.cuda.current_device())
    torch.manual_seed(0)
    layer = MixtureLayer(64, 128, experts=8, top_k=2).to(device)
    for tokens in (1, 17, 256):
        x = torch.randn(tokens, 64, device=device)
        fast = layer(x)
        layer.overlap_below = 0
        slow = layer(x)
        layer.overlap_below = 4096
        torch.testing.assert_close(fast, slow)


if __name__ == "__main__":
    main()
