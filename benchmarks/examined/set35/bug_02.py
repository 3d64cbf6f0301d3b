"""MoE block that overlaps the shared expert with the routed experts."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SharedExpert(nn.Module):
    def __init__(self, hidden: int, inter: int):
        super().__init__()
        self.gate_up = nn.Linear(hidden, 2 * inter, bias=False)
        self.down = nn.Linear(inter, hidden, bias=False)
        self.gate = nn.Linear(hidden, 1, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        g, u = self.gate_up(x).chunk(2, dim=-1)
        y = self.down(F.silu(g) * u)
        return torch.sigmoid(self.gate(x)) * y


class RoutedExperts(nn.Module):
    """Runs the experts one by one; the caller's buffer receives the combined result."""

    def __init__(self, num_experts: int, hidden: int, inter: int, top_k: int):
        super().__init__()
        self.top_k = top_k
        self.w1 = nn.Parameter(torch.randn(num_experts, hidden, inter) * 0.02)
        self.w2 = nn.Parameter(torch.randn(num_experts, inter, hidden) * 0.02)

    def forward(self, x: torch.Tensor, logits: torch.Tensor, inplace: bool) -> torch.Tensor:
        probs = torch.softmax(logits, dim=-1)
        weights, ids = probs.topk(self.top_k, dim=-1)
        dense = torch.zeros_like(probs).scatter(1, ids, weights)
        acc = torch.zeros_like(x)
        for e in range(self.w1.shape[0]):
            acc.addcmul_(dense[:, e:e + 1], F.silu(x @ self.w1[e]) @ self.w2[e])
        if inplace:
            return x.copy_(acc)
        return acc


class SparseMoeBlock(nn.Module):
    def __init__(self, hidden=1024, inter=704, experts=8, top_k=4, alt_stream=None):
        super().__init__()
        self.router = nn.Linear(hidden, experts, bias=False)
        self.shared = SharedExpert(hidden, 4 * inter)
        self.experts = RoutedExperts(experts, hidden, inter, top_k)
        self.alt_stream = alt_stream

    def _forward_single(self, hidden_states: torch.Tensor) -> torch.Tensor:
        shared = self.shared(hidden_states)
        logits = self.router(hidden_states)
        return self.experts(hidden_states, logits, inplace=True) + shared

    def _forward_dual(self, hidden_states: torch.Tensor) -> torch.Tensor:
        current = torch.cuda.current_stream()
        self.alt_stream.wait_stream(current)
        with torch.cuda.stream(self.alt_stream):
            shared = self.shared(hidden_states)
        logits = self.router(hidden_states)
        routed = self.experts(hidden_states, logits, inplace=True)
        current.wait_stream(self.alt_stream)
        shared.record_stream(current)
        return routed + shared

    @torch.no_grad()
    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        shape = hidden_states.shape
        flat = hidden_states.reshape(-1, shape[-1])
        if self.alt_stream is not None and flat.shape[0] <= 1024:
            out = self._forward_dual(flat)
        else:
            out = self._forward_single(flat)
        return out.view(shape)


class Decoder(nn.Module):
    def __init__(self, layers: int, hidden: int):
        super().__init__()
        alt = torch.cuda.Stream()
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.blocks = nn.ModuleList(
            SparseMoeBlock(hidden, alt_stream=alt) for _ in range(layers))

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, block in zip(self.norms, self.blocks):
            x = x + block(norm(x))
        return x


def main() -> None:
    model = Decoder(layers=4, hidden=1024).cuda().half().eval()
    tokens = torch.randn(8, 64, 1024, device="cuda", dtype=torch.half)
    print(model(tokens).float().abs().mean().item())


if __name__ == "__main__":
    main()
