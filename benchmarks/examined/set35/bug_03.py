"""Transformer block whose shared expert runs on an auxiliary stream."""
from typing import Dict, List, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class AuxStreams:
    def __init__(self):
        self._streams: Dict[int, torch.cuda.Stream] = {}
        self._fork: Dict[int, torch.cuda.Event] = {}
        self._done: Dict[int, torch.cuda.Event] = {}

    def _ensure(self, device: int) -> None:
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
            self._fork[device] = torch.cuda.Event()
            self._done[device] = torch.cuda.Event()

    def begin(self, device: int) -> torch.cuda.Stream:
        self._ensure(device)
        self._fork[device].record(torch.cuda.current_stream(device))
        aux = self._streams[device]
        aux.wait_event(self._fork[device])
        return aux

    def end(self, device: int) -> None:
        self._done[device].record(self._streams[device])

    def join(self, device: int) -> None:
        torch.cuda.current_stream(device).wait_event(self._done[device])


AUX = AuxStreams()


class Mlp(nn.Module):
    def __init__(self, hidden: int, inter: int):
        super().__init__()
        self.up = nn.Linear(hidden, inter)
        self.down = nn.Linear(inter, hidden)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, hidden: int, inter: int, experts: int):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.pre = nn.LayerNorm(hidden)
        self.shared = Mlp(hidden, 4 * inter)
        self.router = nn.Linear(hidden, experts)
        self.experts = nn.ModuleList(Mlp(hidden, inter) for _ in range(experts))
        self._shared_out: Optional[torch.Tensor] = None

    def _launch_shared(self, h: torch.Tensor) -> None:
        device = h.get_device()
        main = torch.cuda.current_stream(device)
        aux = AUX.begin(device)
        with torch.cuda.stream(aux):
            self._shared_out = self.shared(h)
            self._shared_out.record_stream(main)
        AUX.end(device)

    def _routed(self, h: torch.Tensor) -> torch.Tensor:
        scores = torch.softmax(self.router(h), dim=-1)
        out = torch.zeros_like(h)
        for i, expert in enumerate(self.experts):
            out += scores[..., i:i + 1] * expert(h)
        return out

    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._launch_shared(self.pre(x) * 0.5)
        routed = self._routed(self.norm(x))
        AUX.join(x.get_device())
        out = x + routed + self._shared_out
        self._shared_out = None
        return out


class Stack(nn.Module):
    def __init__(self, depth: int, hidden: int):
        super().__init__()
        self.blocks: List[Block] = nn.ModuleList(
            Block(hidden, hidden // 2, experts=6) for _ in range(depth))

    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def main() -> None:
    model = Stack(depth=8, hidden=2048).cuda().bfloat16().eval()
    for step in range(16):
        x = torch.randn(4, 512, 2048, device="cuda", dtype=torch.bfloat16)
        print(step, model(x).float().norm().item())


if __name__ == "__main__":
    main()
