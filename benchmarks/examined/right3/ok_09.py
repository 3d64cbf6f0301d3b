"""MoE layer whose shared expert runs beside the routed experts."""
import torch
from torch import nn


class DenseMLP(nn.Module):
    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.up = nn.Linear(dim, hidden, bias=False)
        self.down = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.down(torch.nn.functional.silu(self.up(x)))


class RoutedExperts(nn.Module):
    def __init__(self, dim: int, hidden: int, num_experts: int, topk: int):
        super().__init__()
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(num_experts, dim, hidden) * 0.02)
        self.w2 = nn.Parameter(torch.randn(num_experts, hidden, dim) * 0.02)
        self.topk = topk

    def forward(self, x):
        weights, ids = self.gate(x).softmax(-1).topk(self.topk, dim=-1)
        h = torch.einsum("td,tkdh->tkh", x, self.w1[ids])
        y = torch.einsum("tkh,tkhd->tkd", torch.relu(h), self.w2[ids])
        return (y * weights.unsqueeze(-1)).sum(1)


class MoELayer(nn.Module):
    def __init__(self, dim: int, hidden: int, num_experts: int, shared_stream: torch.cuda.Stream):
        super().__init__()
        self.shared = DenseMLP(dim, hidden)
        self.routed = RoutedExperts(dim, hidden // 4, num_experts, topk=2)
        self.shared_stream = shared_stream

    def _launch_shared(self, x: torch.Tensor) -> torch.Tensor:
        self.shared_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.shared_stream):
            return self.shared(x)

    def _join_shared(self, out: torch.Tensor) -> torch.Tensor:
        current = torch.cuda.current_stream()
        current.wait_stream(self.shared_stream)
        out.record_stream(current)
        return out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shared_out = self._launch_shared(x)
        routed_out = self.routed(x)
        return routed_out.add_(self._join_shared(shared_out))


@torch.inference_mode()
def main():
    stream = torch.cuda.Stream()
    layers = nn.ModuleList(MoELayer(512, 2048, 8, stream) for _ in range(4)).cuda()
    x = torch.randn(64, 512, device="cuda")
    for _ in range(32):
        for layer in layers:
            x = x + layer(x)
        x = torch.nn.functional.normalize(x, dim=-1)
    print(x.sum().item())


if __name__ == "__main__":
    main()
