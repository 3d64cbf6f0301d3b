from typing import Dict, Tuple

import torch
from torch import nn


class TwoBranchBlock(nn.Module):
    """Attention-free mixer with a gating branch on an auxiliary stream."""

    def __init__(self, dim: int, aux_stream: torch.cuda.Stream):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.value = nn.Linear(dim, 4 * dim)
        self.gate = nn.Linear(dim, 4 * dim)
        self.out = nn.Linear(4 * dim, dim)
        self.aux_stream = aux_stream
        self.events = (torch.cuda.Event(), torch.cuda.Event())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        fork, join = self.events
        h = self.norm(x)
        fork.record()
        with torch.cuda.stream(self.aux_stream):
            fork.wait()
            gate = torch.sigmoid(self.gate(h))
            join.record()
        value = torch.nn.functional.gelu(self.value(h))
        join.wait()
        return x + self.out(value * gate)


class GraphRunner:
    def __init__(self, model: nn.Module, dim: int, pool=None, warmup: int = 3):
        self.model = model
        self.dim = dim
        self.warmup = warmup
        self.pool = pool if pool is not None else torch.cuda.graph_pool_handle()
        self.capture_stream = torch.cuda.Stream()
        self.graphs: Dict[int, Tuple[torch.cuda.CUDAGraph, torch.Tensor, torch.Tensor]] = {}

    def capture(self, batch_size: int) -> None:
        static_in = torch.zeros(batch_size, self.dim, device="cuda")
        current = torch.cuda.current_stream()
        self.capture_stream.wait_stream(current)
        with torch.cuda.stream(self.capture_stream):
            for _ in range(self.warmup):
                self.model(static_in)
        current.wait_stream(self.capture_stream)

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.capture_stream):
            static_out = self.model(static_in)
        self.graphs[batch_size] = (graph, static_in, static_out)

    def capture_all(self, batch_sizes) -> None:
        with torch.inference_mode():
            for batch_size in sorted(batch_sizes, reverse=True):
                self.capture(batch_size)

    @torch.inference_mode()
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        batch_size = min(b for b in self.graphs if b >= x.size(0))
        graph, static_in, static_out = self.graphs[batch_size]
        static_in[: x.size(0)].copy_(x)
        graph.replay()
        return static_out[: x.size(0)].clone()


def build(dim: int = 1024, depth: int = 8, batch_sizes=(1, 2, 4, 8)) -> GraphRunner:
    aux_stream = torch.cuda.Stream()
    model = nn.Sequential(*[TwoBranchBlock(dim, aux_stream) for _ in range(depth)]).cuda().eval()
    runner = GraphRunner(model, dim)
    runner.capture_all(batch_sizes)
    return runner
