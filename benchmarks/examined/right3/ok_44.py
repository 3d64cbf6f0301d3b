"""Decode graphs per batch size out of one memory pool."""
from bisect import bisect_left

import torch
from torch import nn


class GraphEntry:
    def __init__(self, graph: torch.cuda.CUDAGraph, logits: torch.Tensor):
        self.graph = graph
        self.logits = logits


class DecodeGraphRunner:
    def __init__(self, model: nn.Module, sizes: list[int], device: torch.device):
        self.model = model
        self.sizes = sorted(sizes)
        top = self.sizes[-1]
        self.ids = torch.zeros(top, dtype=torch.long, device=device)
        self.positions = torch.zeros(top, dtype=torch.long, device=device)
        self.entries: dict[int, GraphEntry] = {}
        self.pool = None

    @torch.inference_mode()
    def capture_all(self) -> None:
        for size in reversed(self.sizes):
            self.entries[size] = self._capture(size)

    def _forward(self, size: int) -> torch.Tensor:
        return self.model(self.ids[:size], self.positions[:size])

    def _capture(self, size: int) -> GraphEntry:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self._forward(size)
            self._forward(size)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self.pool):
            logits = self._forward(size)
        if self.pool is None:
            self.pool = graph.pool()
        return GraphEntry(graph, logits)

    @torch.inference_mode()
    def __call__(self, ids: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        n = ids.shape[0]
        size = self.sizes[bisect_left(self.sizes, n)]
        self.ids[:n].copy_(ids)
        self.positions[:n].copy_(positions)
        entry = self.entries[size]
        entry.graph.replay()
        return entry.logits[:n].clone()


class Decoder(nn.Module):
    def __init__(self, vocab: int, dim: int):
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(2048, dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, positions):
        h = self.tok(ids) + self.pos(positions)
        return self.head(h + self.ff(h))


def main():
    device = torch.device("cuda")
    runner = DecodeGraphRunner(Decoder(1000, 256).to(device).eval(), [1, 4, 16, 64], device)
    runner.capture_all()
    ids = torch.randint(0, 1000, (48,), device=device)
    for step in range(200):
        active = max(1, 48 - step // 4)
        positions = torch.full((active,), step, device=device)
        logits = runner(ids[:active], positions)
        ids = logits.argmax(dim=-1)
    print(ids.tolist())


if __name__ == "__main__":
    main()
