"""Capture of one model call at a fixed shape."""
from dataclasses import dataclass

import torch


@dataclass
class CapturedCall:
    graph: torch.cuda.CUDAGraph
    static_in: torch.Tensor
    static_out: torch.Tensor

    def run(self, batch):
        self.static_in.copy_(batch)
        self.graph.replay()
        return self.static_out.clone()


@torch.no_grad()
def capture(fn, shape, dtype, pool=None):
    static_in = torch.zeros(shape, dtype=dtype, device="cuda")
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(2):
            fn(static_in)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool):
        static_out = fn(static_in)
    return CapturedCall(graph, static_in, static_out)
