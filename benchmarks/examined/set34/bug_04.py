"""Mixture layer with the shared expert on an auxiliary stream."""
import torch
from torch import nn

_WORKSPACES = {}


def get_workspace(device, numel):
    key = (device.type, device.index)
    ws = _WORKSPACES.get(key)
    if ws is None or ws.numel() < numel:
        ws = torch.empty(max(numel, 1 << 24), dtype=torch.float32, device=device)
        _WORKSPACES[key] = ws
    return ws[:numel]


class SplitKLinear(nn.Module):
    """y = x @ w.T evaluated as a sum of K-slices."""

    def __init__(self, in_features, out_features, splits=4):
        super().__init__()
        self.splits = splits
        w = torch.randn(splits, in_features // splits, out_features) / in_features ** 0.5
        self.weight = nn.Parameter(w)

    def forward(self, x):
        m = x.shape[0]
        n = self.weight.shape[2]
        parts = get_workspace(x.device, self.splits * m * n).view(self.splits, m, n)
        xs = x.view(m, self.splits, -1).transpose(0, 1)
        torch.bmm(xs, self.weight, out=parts)
        return parts.sum(dim=0)


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up = SplitKLinear(dim, hidden)
        self.down = SplitKLinear(hidden, dim)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class SharedExpertMoE(nn.Module):
    def __init__(self, dim=1024, hidden=4096, experts=8, aux_stream=None):
        super().__init__()
        self.router = nn.Linear(dim, experts)
        self.experts = nn.ModuleList(FeedForward(dim, hidden) for _ in range(experts))
        self.shared = FeedForward(dim, hidden)
        self.aux_stream = aux_stream or torch.cuda.Stream()

    def _routed(self, x, weights):
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            out += weights[:, i : i + 1] * expert(x)
        return out

    def forward(self, x):
        main = torch.cuda.current_stream()
        self.aux_stream.wait_stream(main)
        with torch.cuda.stream(self.aux_stream):
            shared = self.shared(x)
        weights = self.router(x).softmax(-1)
        routed = self._routed(x, weights)
        main.wait_stream(self.aux_stream)
        shared.record_stream(main)
        return routed + shared


@torch.inference_mode()
def main():
    layers = nn.ModuleList(SharedExpertMoE() for _ in range(4)).cuda()
    get_workspace(torch.device("cuda", torch.cuda.current_device()), 4 * 256 * 4096)
    x = torch.randn(256, 1024, device="cuda")
    for _ in range(16):
        h = x
        for layer in layers:
            h = h + layer(h)
    print(h.mean().item())


if __name__ == "__main__":
    main()
