import bisect

import torch
from torch import nn


class DecodeGraphs:
    """One graph per padded batch size, all in a single memory pool."""

    def __init__(self, model, sizes, dim, vocab):
        self.model = model
        self.sizes = sorted(sizes)
        largest = self.sizes[-1]
        self.hidden = torch.zeros(largest, dim, device="cuda")
        self.logits = torch.zeros(largest, vocab, device="cuda")
        self.graphs = {}
        self.pool = None

    def capture(self):
        for size in reversed(self.sizes):
            self.model(self.hidden[:size])
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.pool):
                self.logits[:size].copy_(self.model(self.hidden[:size]))
            if self.pool is None:
                self.pool = graph.pool()
            self.graphs[size] = graph

    def run(self, hidden):
        n = hidden.shape[0]
        size = self.sizes[bisect.bisect_left(self.sizes, n)]
        self.hidden[:n].copy_(hidden)
        self.graphs[size].replay()
        return self.logits[:n]


class Scheduler:
    def __init__(self, graphs, dim):
        self.graphs = graphs
        self.table = torch.randn(1000, dim, device="cuda")
        self.live = list(range(32))
        self.chosen = {}

    def step(self):
        ids = torch.tensor(self.live, device="cuda")
        logits = self.graphs.run(self.table[ids])
        top = logits.argmax(-1)
        for seq, tok in zip(self.live, top.tolist()):
            self.chosen.setdefault(seq, []).append(tok)
        self.live = [s for s in self.live if len(self.chosen[s]) < 2 + s]


@torch.inference_mode()
def main():
    dim, vocab = 256, 1000
    model = nn.Sequential(nn.Linear(dim, dim * 4), nn.SiLU(), nn.Linear(dim * 4, vocab)).cuda()
    graphs = DecodeGraphs(model, [1, 2, 4, 8, 16, 32], dim, vocab)
    graphs.capture()
    sched = Scheduler(graphs, dim)
    while sched.live:
        sched.step()
    print({k: len(v) for k, v in sched.chosen.items()})


if __name__ == "__main__":
    main()
