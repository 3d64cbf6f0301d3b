from collections.abc import Mapping

import torch
from torch import nn


def map_tensors(obj, fn):
    if torch.is_tensor(obj):
        return fn(obj)
    if isinstance(obj, Mapping):
        return {k: map_tensors(v, fn) for k, v in obj.items()}
    if isinstance(obj, (list, tuple)):
        return type(obj)(map_tensors(v, fn) for v in obj)
    return obj


def visit_tensors(obj, fn):
    if torch.is_tensor(obj):
        if obj.is_cuda:
            fn(obj)
    elif isinstance(obj, Mapping):
        for v in obj.values():
            visit_tensors(v, fn)
    elif isinstance(obj, (list, tuple)):
        for v in obj:
            visit_tensors(v, fn)


class DevicePrefetcher:
    def __init__(self, source, device):
        self._source = iter(source)
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._pending = None
        self._fill()

    def _fill(self):
        try:
            raw = next(self._source)
        except StopIteration:
            self._pending = None
            return
        with torch.cuda.stream(self._stream):
            self._pending = map_tensors(raw, self._upload)

    def _upload(self, t):
        return t.to(self._device, non_blocking=True)

    def __iter__(self):
        return self

    def __next__(self):
        if self._pending is None:
            raise StopIteration
        here = torch.cuda.current_stream(self._device)
        here.wait_stream(self._stream)
        batch, self._pending = self._pending, None
        visit_tensors(batch, lambda t: t.record_stream(here))
        self._fill()
        return batch


def graph_batches(count, nodes=2048, dim=64):
    for i in range(count):
        gen = torch.Generator().manual_seed(i)
        feats = torch.randn(nodes, dim, generator=gen).pin_memory()
        src = torch.randint(0, nodes, (nodes * 4,), generator=gen).pin_memory()
        dst = torch.randint(0, nodes, (nodes * 4,), generator=gen).pin_memory()
        yield {
            "nodes": {"x": feats, "name": f"part{i}"},
            "edges": [(src, dst), {"weight": torch.rand(nodes * 4, generator=gen).pin_memory()}],
        }


class Aggregator(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(dim, dim)

    def forward(self, batch):
        x = batch["nodes"]["x"]
        (src, dst), attr = batch["edges"]
        msg = x.index_select(0, src) * attr["weight"].unsqueeze(1)
        out = torch.zeros_like(x).index_add_(0, dst, msg)
        return self.lin(out)


@torch.no_grad()
def run(device):
    model = Aggregator(64).to(device)
    norms = []
    for batch in DevicePrefetcher(graph_batches(100), device):
        norms.append(model(batch).norm())
    return torch.stack(norms).cpu()


if __name__ == "__main__":
    print(run(torch.device("cuda")))
