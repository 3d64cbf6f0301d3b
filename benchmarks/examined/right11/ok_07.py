from __future__ import annotations

import bisect

import torch
from torch import nn


class DecodeGraphRunner:
    """One captured graph per batch size, all drawing on one memory pool."""

    def __init__(self, model: nn.Module, max_bs: int, hidden: int) -> None:
        self.model = model
        self.sizes = [1, 2, 4, 8] + list(range(16, max_bs + 1, 16))
        self.graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self.pool = None
        self.vars = dict(
            input_ids=torch.zeros(max_bs, dtype=torch.int64, device="cuda"),
            positions=torch.zeros(max_bs, dtype=torch.int64, device="cuda"),
            outputs=torch.zeros(max_bs, hidden, device="cuda"),
        )

    @torch.inference_mode()
    def capture(self) -> None:
        ids, pos, out = (self.vars[k] for k in ("input_ids", "positions", "outputs"))
        for bs in reversed(self.sizes):
            graph = torch.cuda.CUDAGraph()
            out[:bs].copy_(self.model(ids[:bs], pos[:bs]))
            torch.cuda.synchronize()
            with torch.cuda.graph(graph, self.pool):
                out[:bs].copy_(self.model(ids[:bs], pos[:bs]))
            if self.pool is None:
                self.pool = graph.pool()
            self.graphs[bs] = graph
            torch.cuda.synchronize()

    @torch.inference_mode()
    def run(self, input_ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        n = input_ids.size(0)
        bs = self.sizes[bisect.bisect_left(self.sizes, n)]
        self.vars["input_ids"].zero_()
        self.vars["input_ids"][:n].copy_(input_ids)
        self.vars["positions"][:n].copy_(positions)
        self.graphs[bs].replay()
        return self.vars["outputs"][:n].clone()


class TinyLM(nn.Module):
    def __init__(self, vocab: int, hidden: int) -> None:
        super().__init__()
        self.tok = nn.Embedding(vocab, hidden)
        self.pos = nn.Embedding(4096, hidden)
        self.mlp = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, hidden))

    def forward(self, ids: torch.Tensor, pos: torch.Tensor) -> torch.Tensor:
        return self.mlp(self.tok(ids) + self.pos(pos))


@torch.inference_mode()
def generate(batches: list[int], steps: int = 4) -> list[torch.Tensor]:
    model = TinyLM(1000, 256).cuda().eval()
    runner = DecodeGraphRunner(model, 64, 256)
    runner.capture()
    head = nn.Linear(256, 1000).cuda()
    kept: list[torch.Tensor] = []
    for n in batches:
        ids = torch.randint(0, 1000, (n,), device="cuda")
        for t in range(steps):
            hidden = runner.run(ids, torch.full((n,), t, device="cuda"))
            kept.append(hidden)
            ids = head(hidden).argmax(-1)
    return kept


if __name__ == "__main__":
    states = generate([1, 7, 33, 64, 5])
    print(sum(s.float().sum().item() for s in states))
