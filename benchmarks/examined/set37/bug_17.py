"""Speculative decoding: target and draft networks are captured once and replayed side by side."""
from typing import Dict, Optional, Tuple

import torch
from torch import nn

_SCRATCH: Dict[torch.device, torch.Tensor] = {}


def split_k_scratch(device: torch.device, numel: int) -> torch.Tensor:
    scratch = _SCRATCH.get(device)
    if scratch is None:
        scratch = _SCRATCH[device] = torch.empty(1 << 25, device=device)
    return scratch[:numel]


class SplitKLinear(nn.Module):
    def __init__(self, inputs: int, outputs: int, splits: int = 8):
        super().__init__()
        self.splits, self.outputs = splits, outputs
        self.weight = nn.Parameter(torch.randn(splits, inputs // splits, outputs) * inputs**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = x.shape[0]
        parts = x.view(rows, self.splits, -1).transpose(0, 1)
        scratch = split_k_scratch(x.device, self.splits * rows * self.outputs)
        partial = scratch.view(self.splits, rows, self.outputs)
        torch.bmm(parts, self.weight, out=partial)
        return partial.sum(dim=0)


def network(hidden: int, depth: int) -> nn.Sequential:
    return nn.Sequential(*[nn.Sequential(SplitKLinear(hidden, hidden), nn.GELU()) for _ in range(depth)])


class CapturedNetwork:
    def __init__(self, model: nn.Module, rows: int, hidden: int, device: torch.device):
        self.model = model.to(device).eval()
        self.static_x = torch.zeros(rows, hidden, device=device)
        self.static_y: Optional[torch.Tensor] = None
        self.graph = torch.cuda.CUDAGraph()
        self._capture()

    @torch.no_grad()
    def _capture(self) -> None:
        warmup = torch.cuda.Stream()
        warmup.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warmup):
            for _ in range(3):
                self.model(self.static_x)
        torch.cuda.current_stream().wait_stream(warmup)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            self.static_y = self.model(self.static_x)

    def replay(self, x: torch.Tensor) -> torch.Tensor:
        self.static_x.copy_(x)
        self.graph.replay()
        return self.static_y.clone()


class SpeculativeStep:
    def __init__(self, device: torch.device, rows: int = 256, hidden: int = 2048):
        self.target = CapturedNetwork(network(hidden, 32), rows, hidden, device)
        self.draft = CapturedNetwork(network(hidden, 8), rows, hidden, device)
        self.draft_stream = torch.cuda.Stream(device)

    def step(self, verified: torch.Tensor, proposal: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        current = torch.cuda.current_stream()
        self.draft_stream.wait_stream(current)
        with torch.cuda.stream(self.draft_stream):
            drafted = self.draft.replay(proposal)
        checked = self.target.replay(verified)
        current.wait_stream(self.draft_stream)
        drafted.record_stream(current)
        return checked, drafted


def main() -> None:
    device = torch.device("cuda")
    speculative = SpeculativeStep(device)
    verified = torch.randn(256, 2048, device=device)
    proposal = torch.randn(256, 2048, device=device)
    for _ in range(64):
        verified, proposal = speculative.step(verified, proposal)
    print(verified.mean().item(), proposal.mean().item())


if __name__ == "__main__":
    main()
