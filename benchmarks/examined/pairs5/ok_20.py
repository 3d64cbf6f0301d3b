"""Layers replayed piecewise; between segments an eager lookup prefetches rows on a side stream."""
import torch
from torch import nn


class RowPrefetcher:
    def __init__(self, table, batch):
        self.table = table
        self.stream = torch.cuda.Stream()
        self.rows = torch.zeros(batch, table.shape[1], device="cuda")
        self.staged = torch.zeros(batch, table.shape[1], pin_memory=True)
        self.landed = torch.cuda.Event()

    def start(self, ids):
        self.landed.synchronize()
        torch.index_select(self.table, 0, ids, out=self.staged)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            self.rows.copy_(self.staged, non_blocking=True)
            self.landed.record()

    def join(self):
        torch.cuda.current_stream().wait_event(self.landed)


class Piecewise:
    def __init__(self, layers, prefetcher, batch, dim):
        self.h = torch.zeros(batch, dim, device="cuda")
        self.prefetcher = prefetcher
        self.segments = []
        for layer in layers:
            def segment(layer=layer):
                self.h.copy_(layer(self.h + prefetcher.rows))
            self.segments.append(self._capture(segment))

    @torch.no_grad()
    def _capture(self, fn):
        warm = torch.cuda.Stream()
        warm.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(warm):
            fn()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            fn()
        return graph

    def run(self, x, ids_per_layer):
        self.h.copy_(x)
        for segment, ids in zip(self.segments, ids_per_layer):
            self.prefetcher.start(ids)
            self.prefetcher.join()
            segment.replay()
        return self.h.clone()


def main():
    batch, dim = 256, 512
    table = torch.randn(100_000, dim)
    layers = [nn.Linear(dim, dim).cuda() for _ in range(6)]
    model = Piecewise(layers, RowPrefetcher(table, batch), batch, dim)
    for _ in range(5):
        ids = [torch.randint(0, 100_000, (batch,)) for _ in layers]
        y = model.run(torch.randn(batch, dim, device="cuda"), ids)
    print(y.norm().item())


if __name__ == "__main__":
    main()
