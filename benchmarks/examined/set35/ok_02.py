"""MoE block: shared expert on a second stream, routed result written into the input."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SharedExpert(nn.Module):
    """Gated feed-forward network, split into projection and output."""

    def __init__(self, hidden: int, inter: int):
        super().__init__()
        self.gate_up = nn.Linear(hidden, 2 * inter, bias=False)
        self.down = nn.Linear(inter, hidden, bias=False)
        self.gate = nn.Linear(hidden, 1, bias=False)

    def project(self, x: torch.Tensor):
        return self.gate_up(x), torch.sigmoid(self.gate(x))

    def finish(self, projected: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        g, u = projected.chunk(2, dim=-1)
        return gate * self.down(F.silu(g) * u)


class RoutedExperts(nn.Module):
    def __init__(self, num_experts: int, hidden: int, inter: int, top_k: int):
        super().__init__()
        self.top_k = top_k
        self.w1 = nn.Parameter(torch.randn(num_experts, hidden, inter) * 0.02)
        self.w2 = nn.Parameter(torch.randn(num_experts, inter, hidden) * 0.02)

    def forward(self, x: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        probs = torch.softmax(logits, dim=-1)
        weights, ids = probs.topk(self.top_k, dim=-1)
        dense = torch.zeros_like(probs).scatter(1, ids, weights)
        acc = torch.zeros_like(x)
        for e in range(self.w1.shape[0]):
            acc.addcmul_(dense[:, e:e + 1], F.silu(x @ self.w1[e]) @ self.w2[e])
        return acc


class SparseMoeBlock(nn.Module):
    def __init__(self, hidden: int, inter: int, experts: int, alt: torch.cuda.Stream):
        super().__init__()
        self.router = nn.Linear(hidden, experts, bias=False)
        self.shared = SharedExpert(hidden, 4 * inter)
        self.experts = RoutedExperts(experts, hidden, inter, top_k=4)
        self.alt = alt

    @torch.no_grad()
    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        main = torch.cuda.current_stream()
        self.alt.wait_stream(main)
        with torch.cuda.stream(self.alt):
            projected, gate = self.shared.project(hidden_states)
            input_read = self.alt.record_event()
            shared = self.shared.finish(projected, gate)
        routed = self.experts(hidden_states, self.router(hidden_states))
        main.wait_event(input_read)
        hidden_states.copy_(routed)
        main.wait_stream(self.alt)
        hidden_states.add_(shared)
        shared.record_stream(main)
        return hidden_states


class Decoder(nn.Module):
    def __init__(self, layers: int, hidden: int):
        super().__init__()
        alt = torch.cuda.Stream()
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.blocks = nn.ModuleList(
            SparseMoeBlock(hidden, 704, 8, alt) for _ in range(layers))

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, block in zip(self.norms, self.blocks):
            x = x + block(norm(x))
        return x


def main() -> None:
    model = Decoder(layers=4, hidden=1024).cuda().half().eval()
    tokens = torch.randn(512, 1024, device="cuda", dtype=torch.half)
    print(model(tokens).float().abs().mean().item())


if __name__ == "__main__":
    main()
