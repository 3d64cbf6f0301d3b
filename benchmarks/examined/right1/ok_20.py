"""Mixture-of-experts block whose shared expert runs on an alternate stream."""
import torch
from torch import nn


class Branch:
    """Forks a stream from the caller on entry and joins it on exit."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        self.caller = torch.cuda.current_stream()
        self.stream.wait_stream(self.caller)
        return self

    def side(self):
        return torch.cuda.stream(self.stream)

    def __exit__(self, *exc):
        self.caller.wait_stream(self.stream)
        return False


def ffn(dim, hidden):
    return nn.Sequential(nn.Linear(dim, hidden), nn.SiLU(), nn.Linear(hidden, dim))


class SharedExpertMoE(nn.Module):
    def __init__(self, dim, hidden, experts, top_k, alt_stream):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList(ffn(dim, hidden) for _ in range(experts))
        self.shared = ffn(dim, 2 * hidden)
        self.top_k = top_k
        self.alt_stream = alt_stream

    def _routed(self, x):
        scores, chosen = torch.softmax(self.gate(x), -1).topk(self.top_k, dim=-1)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            token, rank = (chosen == e).nonzero(as_tuple=True)
            if token.numel() == 0:
                continue
            out.index_add_(0, token, expert(x[token]) * scores[token, rank, None])
        return out

    def forward(self, x):
        with Branch(self.alt_stream) as branch:
            with branch.side():
                shared = self.shared(x)
            routed = self._routed(x)
        return x + routed + shared


@torch.inference_mode()
def main():
    alt = torch.cuda.Stream()
    layers = nn.Sequential(*[SharedExpertMoE(512, 1024, 8, 2, alt) for _ in range(6)]).cuda()
    for step in range(10):
        x = torch.randn(256, 512, device="cuda")
        y = layers(x)
        print(step, y.std().item())


if __name__ == "__main__":
    main()
