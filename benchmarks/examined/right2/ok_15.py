from __future__ import annotations

import bisect
from contextlib import contextmanager

import torch
import torch.nn as nn


class CudaGraphRunner:
    """Decode graphs for a few batch sizes which share one memory pool."""

    def __init__(self, model: nn.Module, hidden: int, max_bs: int, device):
        self.model = model
        self.device = device
        self.capture_bs = [b for b in (1, 2, 4, 8, 16, 32, 64) if b <= max_bs]
        self.input_ids = torch.zeros(max_bs, dtype=torch.long, device=device)
        self.positions = torch.zeros(max_bs, dtype=torch.long, device=device)
        self.stream = torch.cuda.Stream(device)
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.outputs: dict[int, torch.Tensor] = {}
        self.pool = None

    @contextmanager
    def _capture_scope(self):
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            yield
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    @torch.inference_mode()
    def capture(self):
        with self._capture_scope():
            for bs in reversed(self.capture_bs):
                ids, pos = self.input_ids[:bs], self.positions[:bs]
                for _ in range(2):
                    self.model(ids, pos)
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                    self.outputs[bs] = self.model(ids, pos)
                if self.pool is None:
                    self.pool = graph.pool()
                self.graphs[bs] = graph

    @torch.inference_mode()
    def replay(self, ids: torch.Tensor, pos: torch.Tensor) -> torch.Tensor:
        raw_bs = ids.shape[0]
        bs = self.capture_bs[bisect.bisect_left(self.capture_bs, raw_bs)]
        if bs != raw_bs:
            self.input_ids.zero_()
            self.positions.zero_()
        self.input_ids[:raw_bs].copy_(ids)
        self.positions[:raw_bs].copy_(pos)
        self.graphs[bs].replay()
        return self.outputs[bs][:raw_bs].clone()


def decode(runner: CudaGraphRunner, groups, steps: int):
    """Advance several request groups in turn and collect their tokens."""
    history = [[] for _ in groups]
    state = [(ids.to(runner.device), pos.to(runner.device)) for ids, pos in groups]
    for _ in range(steps):
        logits = [runner.replay(ids, pos) for ids, pos in state]
        for index, rows in enumerate(logits):
            next_ids = rows.argmax(dim=-1)
            history[index].append(next_ids)
            state[index] = (next_ids, state[index][1] + 1)
    return [torch.stack(h, dim=1).tolist() for h in history]
