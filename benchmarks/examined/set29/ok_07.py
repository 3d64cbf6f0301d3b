"""Two captured workloads that share one graph memory pool and run one after the other."""
from __future__ import annotations

from typing import Callable

import torch
from torch import nn


class StaticWorkload:
    """A captured function with static input and output tensors that live outside the pool."""

    def __init__(self, fn: Callable[[torch.Tensor], torch.Tensor], example: torch.Tensor, pool) -> None:
        self.fn = fn
        self.static_in = example.clone()
        self.graph = torch.cuda.CUDAGraph()
        self._warmup()
        with torch.cuda.graph(self.graph, pool=pool):
            self.static_out.copy_(self.fn(self.static_in))

    def _warmup(self) -> None:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                probe = self.fn(self.static_in)
        torch.cuda.current_stream().wait_stream(side)
        probe.record_stream(torch.cuda.current_stream())
        self.static_out = torch.empty_like(probe)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.static_in.copy_(x)
        self.graph.replay()
        return self.static_out


def many_intermediates(x: torch.Tensor) -> torch.Tensor:
    parts = [x * i for i in range(50)]
    total = parts.pop()
    while parts:
        total = total + parts.pop()
    return total


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Pipeline:
    def __init__(self, n: int, m: int) -> None:
        self.block = Block(m).cuda().eval()
        self.pool = torch.cuda.graph_pool_handle()
        self.first = StaticWorkload(many_intermediates, torch.randn(n, m, device="cuda"), self.pool)
        self.second = StaticWorkload(self.block, torch.randn(n, m, device="cuda"), self.pool)

    def run(self, x: torch.Tensor, order: str) -> torch.Tensor:
        for name in order:
            stage = self.first if name == "a" else self.second
            x = stage(x)
        return x.clone()


@torch.inference_mode()
def main() -> None:
    pipe = Pipeline(1024, 512)
    outputs = []
    for i in range(8):
        x = torch.randn(1024, 512, device="cuda")
        order = "ab" if i % 2 == 0 else "ba"
        outputs.append(pipe.run(x, order))
    torch.cuda.synchronize()
    print([o.float().mean().item() for o in outputs])


if __name__ == "__main__":
    main()
