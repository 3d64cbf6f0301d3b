from functools import singledispatch
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map_only


class Graph(NamedTuple):
    src: torch.Tensor
    dst: torch.Tensor
    feats: dict
    extra: Any = None


@singledispatch
def retain(obj, stream):
    return obj


@retain.register
def _(obj: torch.Tensor, stream):
    obj.record_stream(stream)
    return obj


@retain.register
def _(obj: dict, stream):
    return {k: retain(v, stream) for k, v in obj.items()}


@retain.register
def _(obj: tuple, stream):
    items = [retain(v, stream) for v in obj]
    return type(obj)(*items) if hasattr(obj, "_fields") else tuple(items)


class GraphPrefetcher:
    def __init__(self, graphs, device="cuda"):
        self._it = iter(graphs)
        self._device = device
        self._stream = torch.cuda.Stream(device)
        self._next = None
        self._load()

    def _load(self):
        host = next(self._it, None)
        if host is None:
            self._next = None
            return
        with torch.cuda.stream(self._stream):
            self._next = tree_map_only(torch.Tensor, lambda t: t.to(self._device, non_blocking=True), host)

    def __iter__(self):
        while self._next is not None:
            current = torch.cuda.current_stream(self._device)
            current.wait_stream(self._stream)
            graph = retain(self._next, current)
            self._load()
            yield graph


def random_graphs(n):
    for _ in range(n):
        e = torch.randint(0, 5000, (2, 40000))
        yield Graph(e[0].pin_memory(), e[1].pin_memory(),
                    {"node": torch.randn(5000, 64).pin_memory(), "w": (torch.rand(40000).pin_memory(),)})


def message_pass(g: Graph) -> torch.Tensor:
    msg = g.feats["node"][g.src] * g.feats["w"][0][:, None]
    return torch.zeros_like(g.feats["node"]).index_add_(0, g.dst, msg)


def main():
    total = torch.zeros(64, device="cuda")
    for g in GraphPrefetcher(random_graphs(50)):
        total += message_pass(g).mean(0)
    print(total.norm().item())


if __name__ == "__main__":
    main()
