"""Bucketed CUDA graph execution for a ranking model."""
import bisect
from typing import Dict, List, NamedTuple

import torch
from torch import nn


class Captured(NamedTuple):
    graph: torch.cuda.CUDAGraph
    static_in: torch.Tensor
    static_out: torch.Tensor


class GraphRunner:
    def __init__(self, model: nn.Module, features: int, buckets: List[int], device: torch.device):
        self.model = model.eval()
        self.features = features
        self.buckets = sorted(buckets)
        self.device = device
        self.stream = torch.cuda.Stream(device=device)
        self.captured: Dict[int, Captured] = {}
        self.pool = None

    @torch.no_grad()
    def _capture(self, size: int) -> Captured:
        with torch.cuda.stream(self.stream):
            static_in = torch.zeros(size, self.features, device=self.device)
            for _ in range(3):
                self.model(static_in)
        self.stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
            static_out = self.model(static_in)
        if self.pool is None:
            self.pool = graph.pool()
        return Captured(graph, static_in, static_out)

    def _bucket_for(self, n: int) -> int:
        i = bisect.bisect_left(self.buckets, n)
        if i == len(self.buckets):
            raise ValueError(f"batch of {n} exceeds largest bucket {self.buckets[-1]}")
        return self.buckets[i]

    @torch.no_grad()
    def run(self, x: torch.Tensor) -> torch.Tensor:
        n = x.shape[0]
        size = self._bucket_for(n)
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        if size not in self.captured:
            self.captured[size] = self._capture(size)
        entry = self.captured[size]
        if x.is_cuda:
            x.record_stream(self.stream)
        try:
            with torch.cuda.stream(self.stream):
                entry.static_in[:n].copy_(x)
                if n < size:
                    entry.static_in[n:].zero_()
                entry.graph.replay()
                out = entry.static_out[:n].clone()
        finally:
            current.wait_stream(self.stream)
        out.record_stream(current)
        return out

    def warm(self) -> None:
        for size in self.buckets:
            self.run(torch.zeros(size, self.features, device=self.device))


def rank(runner: GraphRunner, candidates: torch.Tensor, k: int) -> List[int]:
    scores = torch.cat([runner.run(part) for part in candidates.split(runner.buckets[-1])])
    k = min(k, scores.shape[0])
    return scores.view(-1).topk(k).indices.tolist()
