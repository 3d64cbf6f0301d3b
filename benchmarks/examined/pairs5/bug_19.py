"""Breakable capture: captured segments with eager breaks in between, one break gathers embeddings from host."""
import torch
from torch import nn


class NgramGather:
    def __init__(self, vocab, dim, batch):
        self.table = torch.randn(vocab, dim).pin_memory()
        self.out = torch.zeros(batch, dim, device="cuda")
        self.host = torch.zeros(batch, dim, pin_memory=True)
        self.stream = torch.cuda.Stream()
        self.event = torch.cuda.Event()

    def __call__(self, ids):
        self.event.synchronize()
        torch.index_select(self.table, 0, ids, out=self.host)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.out.copy_(self.host, non_blocking=True)
            self.event.record()
        return self.out


class BreakableGraph:
    def __init__(self):
        self.parts = []

    def add_segment(self, fn):
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.no_grad(), torch.cuda.graph(graph):
            fn()
        self.parts.append(("graph", graph))

    def add_break(self, fn):
        self.parts.append(("eager", fn))

    def replay(self, **inputs):
        for kind, part in self.parts:
            if kind == "graph":
                part.replay()
            else:
                part(**inputs)


class NgramModel:
    def __init__(self, vocab=200_000, dim=1024, batch=256):
        self.x = torch.zeros(batch, dim, device="cuda")
        self.h = torch.zeros(batch, dim, device="cuda")
        self.y = torch.zeros(batch, dim, device="cuda")
        self.gather = NgramGather(vocab, dim, batch)
        self.inp, self.out = nn.Linear(dim, dim).cuda(), nn.Linear(dim, dim).cuda()
        with torch.no_grad():
            self.out(self.inp(self.x))
        self.graph = BreakableGraph()
        self.graph.add_segment(lambda: self.h.copy_(self.inp(self.x)))
        self.graph.add_break(lambda ids: self.gather(ids))
        self.graph.add_segment(lambda: self.y.copy_(self.out(self.h + self.gather.out)))

    def __call__(self, x, ids):
        self.x.copy_(x)
        self.graph.replay(ids=ids)
        return self.y.clone()


def main():
    model = NgramModel()
    for _ in range(20):
        y = model(torch.randn(256, 1024, device="cuda"), torch.randint(0, 200_000, (256,)))
    print(y.mean().item())


if __name__ == "__main__":
    main()
