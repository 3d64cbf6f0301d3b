"""Packed QKV projection with multi-stream LoRA shrink/expand."""
from dataclasses import dataclass
from typing import List

import torch
import torch.nn as nn


@dataclass
class LoRASlice:
    a: torch.Tensor
    b: torch.Tensor
    lo: int
    hi: int


class LoRAStreams:
    def __init__(self, count: int):
        self.streams = [torch.cuda.Stream() for _ in range(count)]
        self.turn = 0

    def fork(self, event: torch.cuda.Event):
        for s in self.streams:
            s.wait_event(event)

    def next(self) -> torch.cuda.Stream:
        s = self.streams[self.turn % len(self.streams)]
        self.turn += 1
        return s

    def join(self, current: torch.cuda.Stream):
        for s in self.streams:
            current.wait_stream(s)


class PackedLoRA(nn.Module):
    def __init__(self, width: int, outs: List[int], rank: int, max_tokens: int, pool: LoRAStreams):
        super().__init__()
        self.base = nn.Linear(width, sum(outs), bias=False)
        self.pool = pool
        self.slices: List[LoRASlice] = []
        lo = 0
        for i, out in enumerate(outs):
            a = nn.Parameter(torch.randn(width, rank) * 0.02, requires_grad=False)
            b = nn.Parameter(torch.randn(rank, out) * 0.02, requires_grad=False)
            self.register_parameter(f"a{i}", a)
            self.register_parameter(f"b{i}", b)
            self.slices.append(LoRASlice(a, b, lo, lo + out))
            lo += out
        self.register_buffer("shrink_buf", torch.zeros(max_tokens, rank))
        self.register_buffer("lora_out", torch.zeros(max_tokens, sum(outs)))

    def _apply(self, fn, recurse: bool = True):
        super()._apply(fn, recurse)
        for i, s in enumerate(self.slices):
            s.a, s.b = getattr(self, f"a{i}"), getattr(self, f"b{i}")
        return self

    def _add_lora(self, x: torch.Tensor, s: LoRASlice):
        n = x.shape[0]
        low = self.shrink_buf[:n]
        torch.mm(x, s.a, out=low)
        self.lora_out[:n, s.lo:s.hi].copy_(torch.mm(low, s.b))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        current = torch.cuda.current_stream()
        self.pool.fork(current.record_event())
        y = self.base(x)
        for s in self.slices:
            with torch.cuda.stream(self.pool.next()):
                self._add_lora(x, s)
        self.pool.join(current)
        return y.add_(self.lora_out[: x.shape[0]])


class Layer(nn.Module):
    def __init__(self, width: int, rank: int, max_tokens: int, pool: LoRAStreams):
        super().__init__()
        self.qkv = PackedLoRA(width, [width, width // 4, width // 4], rank, max_tokens, pool)
        self.out = nn.Linear(width + width // 2, width, bias=False)

    def forward(self, x):
        return x + self.out(torch.tanh(self.qkv(x)))


@torch.no_grad()
def main():
    torch.manual_seed(0)
    width, tokens = 2048, 1024
    pool = LoRAStreams(2)
    layers = nn.ModuleList(Layer(width, 64, tokens, pool) for _ in range(8)).cuda()
    x = torch.randn(tokens, width, device="cuda")
    for _ in range(4):
        h = x
        for layer in layers:
            h = layer(h)
        print(h.norm().item())


if __name__ == "__main__":
    main()
