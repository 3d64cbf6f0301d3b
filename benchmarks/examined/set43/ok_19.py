from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class SharedExpert(nn.Module):
    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        out.copy_(self.down(F.silu(gate) * up))
        return out


class RoutedExperts(nn.Module):
    def __init__(self, experts: int, width: int, top: int):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.w = nn.Parameter(torch.randn(experts, width, width) * 0.02)
        self.top = top

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, idx = self.router(x).softmax(-1).topk(self.top, dim=-1)
        out = torch.zeros_like(x)
        for e in range(self.w.shape[0]):
            share = (weight * (idx == e)).sum(-1, keepdim=True)
            out.add_(share * (x @ self.w[e]))
        return out


class AuxContext:
    """One aux stream and one shared-output buffer for the whole model."""

    def __init__(self, tokens: int, width: int):
        self.stream = torch.cuda.Stream()
        self.buffer = torch.empty(tokens, width, device="cuda")
        self.done: Optional[torch.cuda.Event] = None


class OverlappedMoE(nn.Module):
    def __init__(self, width: int, experts: int, aux: AuxContext):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.shared = SharedExpert(width, 2 * width)
        self.routed = RoutedExperts(experts, width, top=2)
        self.aux = aux

    def launch_shared(self, x: torch.Tensor):
        before = torch.cuda.current_stream().record_event()
        self.aux.stream.wait_event(before)
        x.record_stream(self.aux.stream)
        with torch.cuda.stream(self.aux.stream):
            self.shared(x, self.aux.buffer[: x.shape[0]])
            self.aux.done = self.aux.stream.record_event()

    def combine(self, residual: torch.Tensor, routed: torch.Tensor) -> torch.Tensor:
        torch.cuda.current_stream().wait_event(self.aux.done)
        return residual + routed + self.aux.buffer[: routed.shape[0]]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        self.launch_shared(h)
        routed = self.routed(h)
        return self.combine(x, routed)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    width, tokens = 1024, 512
    aux = AuxContext(tokens, width)
    model = nn.Sequential(*[OverlappedMoE(width, 8, aux) for _ in range(6)]).cuda()
    for n in (tokens, tokens // 2, 17):
        y = model(torch.randn(n, width, device="cuda"))
        print(n, y.norm().item())


if __name__ == "__main__":
    main()
