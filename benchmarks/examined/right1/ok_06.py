"""Decode graphs for several batch sizes that share one memory pool."""
import bisect

import torch
from torch import nn


class DecodeGraphs:
    def __init__(self, model, sizes):
        self.model = model
        self.sizes = sorted(sizes)
        self.ids = torch.zeros(self.sizes[-1], dtype=torch.int64, device="cuda")
        self.positions = torch.zeros_like(self.ids)
        self.graphs = {}
        self.logits = {}
        self.pool = None

    def _warm_up(self, bs):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(2):
                self.model(self.ids[:bs], self.positions[:bs])
        torch.cuda.current_stream().wait_stream(stream)

    @torch.inference_mode()
    def capture_all(self):
        for bs in reversed(self.sizes):
            self._warm_up(bs)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                self.logits[bs] = self.model(self.ids[:bs], self.positions[:bs])
            if self.pool is None:
                self.pool = graph.pool()
            self.graphs[bs] = graph

    def _bucket(self, n):
        return self.sizes[bisect.bisect_left(self.sizes, n)]

    @torch.inference_mode()
    def __call__(self, ids, positions):
        n = ids.numel()
        bs = self._bucket(n)
        self.ids[:n].copy_(ids)
        self.positions[:n].copy_(positions)
        if n < bs:
            self.ids[n:bs].zero_()
            self.positions[n:bs].zero_()
        self.graphs[bs].replay()
        return self.logits[bs][:n].clone()


class TinyDecoder(nn.Module):
    def __init__(self, vocab=8192, dim=512, context=1024):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(context, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids, positions):
        x = self.tok(ids) + self.pos(positions)
        return self.head(x + self.mlp(x))


def main():
    graphs = DecodeGraphs(TinyDecoder().cuda().eval(), sizes=[1, 2, 4, 8, 16, 32])
    graphs.capture_all()
    a = torch.randint(0, 8192, (13,), device="cuda")
    b = torch.randint(0, 8192, (5,), device="cuda")
    for position in range(64):
        logits_a = graphs(a, torch.full_like(a, position))
        logits_b = graphs(b, torch.full_like(b, position))
        a = logits_a.argmax(-1)
        b = logits_b.argmax(-1)
    print(a.tolist(), b.tolist())


if __name__ == "__main__":
    main()
