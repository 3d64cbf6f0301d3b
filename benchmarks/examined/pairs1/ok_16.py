"""Mixture-of-experts block with the shared expert on a second stream, captured as one graph."""
import torch
from torch import nn


class MoEBlock(nn.Module):
    def __init__(self, dim, experts, alt_stream):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.routed = nn.Parameter(torch.randn(experts, dim, dim) / dim ** 0.5)
        self.shared = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))
        self.alt_stream = alt_stream

    def forward(self, x):
        main = torch.cuda.current_stream()
        self.alt_stream.wait_stream(main)
        with torch.cuda.stream(self.alt_stream):
            shared = self.shared(x)
        weights = self.gate(x).softmax(-1)
        routed = torch.einsum("be,edk,bd->bk", weights, self.routed, x)
        main.wait_stream(self.alt_stream)
        return x + routed + shared


class CapturedStack:
    def __init__(self, stack, batch, dim):
        self.x = torch.zeros(batch, dim, device="cuda")
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            for _ in range(3):
                stack(self.x)
        torch.cuda.current_stream().wait_stream(warm)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.y = stack(self.x)

    def __call__(self, x):
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()


@torch.no_grad()
def main(dim=512):
    alt = torch.cuda.Stream()
    stack = nn.Sequential(*[MoEBlock(dim, 8, alt) for _ in range(6)]).cuda()
    step = CapturedStack(stack, 16, dim)
    h = torch.randn(16, dim, device="cuda")
    for _ in range(50):
        h = nn.functional.layer_norm(step(h), (dim,))
    print(h.std().item())


if __name__ == "__main__":
    main()
