from collections import OrderedDict

import torch
import torch.distributed as dist


class ReplayEntry:
    def __init__(self, graph, static_in, static_out):
        self.graph = graph
        self.static_in = static_in
        self.static_out = static_out


class GraphedAllReduce:
    """Caches one captured all-reduce per (shape, dtype); falls back to eager while warming up."""

    def __init__(self, group, capacity=8, warmup=2):
        self.group = group
        self.capacity = capacity
        self.warmup = warmup
        self.calls = {}
        self.entries = OrderedDict()
        self.stream = torch.cuda.Stream()

    def _eager(self, x, out):
        out.copy_(x)
        dist.all_reduce(out, group=self.group)
        return out

    def _capture(self, x):
        static_in = torch.empty_like(x)
        static_out = torch.empty_like(x)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            static_in.copy_(x)
            self._eager(static_in, static_out)
        torch.cuda.current_stream().wait_stream(self.stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            self._eager(static_in, static_out)
        return ReplayEntry(graph, static_in, static_out)

    def _evict(self):
        key, _ = next(iter(self.entries.items()))
        torch.cuda.synchronize()
        del self.entries[key]
        self.calls[key] = 0

    @torch.no_grad()
    def __call__(self, x, out=None):
        if out is None:
            out = torch.empty_like(x)
        key = (tuple(x.shape), x.dtype)
        entry = self.entries.get(key)
        if entry is None:
            count = self.calls[key] = self.calls.get(key, 0) + 1
            if count <= self.warmup:
                return self._eager(x, out)
            if len(self.entries) >= self.capacity:
                self._evict()
            entry = self.entries[key] = self._capture(x)
        self.entries.move_to_end(key)
        entry.static_in.copy_(x)
        entry.graph.replay()
        out.copy_(entry.static_out)
        return out


class TensorParallelMLP(torch.nn.Module):
    def __init__(self, dim, hidden, reducer):
        super().__init__()
        world = dist.get_world_size(reducer.group)
        self.up = torch.nn.Linear(dim, hidden // world, bias=False)
        self.down = torch.nn.Linear(hidden // world, dim, bias=False)
        self.reducer = reducer

    def forward(self, x):
        return self.reducer(self.down(torch.nn.functional.gelu(self.up(x))))


@torch.no_grad()
def run(blocks, batches):
    for x in batches:
        x = x.to("cuda")
        partials = []
        for block in blocks:
            y = block(x)
            partials.append(y)
            x = x + y
        yield x.cpu(), torch.stack(partials).norm(dim=-1).cpu()
