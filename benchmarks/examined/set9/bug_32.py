from typing import Dict, List, Optional, Tuple

import torch


class DecodeMetadata:
    def __init__(self, max_bs: int, device):
        self.cu_seqlens = torch.zeros(max_bs + 1, dtype=torch.int32, device=device)
        self.split_indptr = torch.zeros(max_bs + 1, dtype=torch.int32, device=device)


def plan_splits(bs: int, max_splits: int) -> List[int]:
    return [i * max_splits for i in range(bs + 1)]


class GraphedDecoder:
    """Captures one decode graph per batch size; the split plan is uploaded inside the graph."""

    def __init__(self, model: torch.nn.Module, max_bs: int, hidden: int, max_splits: int = 8):
        self.model = model
        self.device = next(model.parameters()).device
        self.hidden = hidden
        self.max_splits = max_splits
        self.meta = DecodeMetadata(max_bs, self.device)
        self.static_x = torch.zeros(max_bs, hidden, device=self.device)
        self.pool: Optional[Tuple[int, int]] = None
        self.graphs: Dict[int, Tuple[torch.cuda.CUDAGraph, torch.Tensor]] = {}

    def _step(self, bs: int, plan_cpu: torch.Tensor) -> torch.Tensor:
        self.meta.split_indptr[: bs + 1].copy_(plan_cpu, non_blocking=True)
        return self.model(self.static_x[:bs], self.meta.cu_seqlens[: bs + 1], self.meta.split_indptr[: bs + 1])

    @torch.inference_mode()
    def capture(self, bs: int):
        plan_cpu = torch.tensor(plan_splits(bs, self.max_splits), dtype=torch.int32).pin_memory()
        side = torch.cuda.Stream(self.device)
        side.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(side):
            for _ in range(2):
                self._step(bs, plan_cpu)
        torch.cuda.current_stream(self.device).wait_stream(side)

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            out = self._step(bs, plan_cpu)
        if self.pool is None:
            self.pool = graph.pool()
        self.graphs[bs] = (graph, out)

    @torch.inference_mode()
    def decode(self, x: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
        bs = x.shape[0]
        if bs not in self.graphs:
            self.capture(bs)
        graph, out = self.graphs[bs]
        self.static_x[:bs].copy_(x)
        self.meta.cu_seqlens[: bs + 1].copy_(cu_seqlens)
        graph.replay()
        return out.clone()


def generate(decoder: GraphedDecoder, embed, lm_head, tokens: torch.Tensor, steps: int):
    bs = tokens.shape[0]
    outputs = []
    for step in range(steps):
        lens = torch.full((bs,), step + 1, dtype=torch.int32).cumsum(0, dtype=torch.int32)
        cu_seqlens = torch.cat([torch.zeros(1, dtype=torch.int32), lens]).pin_memory()
        hidden = decoder.decode(embed(tokens), cu_seqlens.to("cuda", non_blocking=True))
        tokens = lm_head(hidden).argmax(dim=-1)
        outputs.append(tokens)
    return torch.stack(outputs, dim=1)
