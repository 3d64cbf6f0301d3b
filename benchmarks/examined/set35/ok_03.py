"""Transformer blocks whose shared expert runs on an auxiliary lane."""
from typing import List, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class AuxLane:
    """One auxiliary stream and the inputs of its queue."""

    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.held: List[torch.Tensor] = []

    def submit(self, fn, *inputs: torch.Tensor) -> torch.Tensor:
        caller = torch.cuda.current_stream()
        self.stream.wait_stream(caller)
        self.held.extend(inputs)
        with torch.cuda.stream(self.stream):
            out = fn(*inputs)
        out.record_stream(caller)
        return out

    def join(self) -> None:
        torch.cuda.current_stream().wait_stream(self.stream)
        self.held.clear()


class Mlp(nn.Module):
    def __init__(self, hidden: int, inter: int):
        super().__init__()
        self.up = nn.Linear(hidden, inter)
        self.down = nn.Linear(inter, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, hidden: int, inter: int, experts: int, lane: AuxLane):
        super().__init__()
        self.lane = lane
        self.pre = nn.LayerNorm(hidden)
        self.norm = nn.LayerNorm(hidden)
        self.shared = Mlp(hidden, 4 * inter)
        self.router = nn.Linear(hidden, experts)
        self.experts = nn.ModuleList(Mlp(hidden, inter) for _ in range(experts))

    def _routed(self, h: torch.Tensor) -> torch.Tensor:
        scores = torch.softmax(self.router(h), dim=-1)
        out = torch.zeros_like(h)
        for i, expert in enumerate(self.experts):
            out += scores[..., i:i + 1] * expert(h)
        return out

    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shared = self.lane.submit(self.shared, self.pre(x) * 0.5)
        routed = self._routed(self.norm(x))
        self.lane.join()
        return x + routed + shared


class Stack(nn.Module):
    def __init__(self, depth: int, hidden: int):
        super().__init__()
        self.lane = AuxLane()
        self.blocks = nn.ModuleList(
            Block(hidden, hidden // 2, 6, self.lane) for _ in range(depth))
        self.final: Optional[nn.Module] = nn.LayerNorm(hidden)

    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.final(x)


def main() -> None:
    model = Stack(depth=8, hidden=2048).cuda().bfloat16().eval()
    for step in range(16):
        x = torch.randn(4, 512, 2048, device="cuda", dtype=torch.bfloat16)
        print(step, model(x).float().norm().item())


if __name__ == "__main__":
    main()
