"""Layer-wise loading and storing of a paged KV cache for prefix reuse."""
from __future__ import annotations

import torch


class KVConnector:
    def __init__(self, caches: dict[str, torch.Tensor], host_blocks: int):
        self.caches = caches
        sample = next(iter(caches.values()))
        self.device = sample.device
        self._host = {
            name: torch.zeros((host_blocks, *cache.shape[1:]), dtype=cache.dtype, pin_memory=True)
            for name, cache in caches.items()
        }
        self._io = torch.cuda.Stream(device=self.device)
        for cache in caches.values():
            cache.record_stream(self._io)
        self._loaded: dict[str, torch.cuda.Event] = {}

    def start_load(self, pairs: list[tuple[int, int]]) -> None:
        if not pairs:
            return
        self._io.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self._io):
            for name, cache in self.caches.items():
                host = self._host[name]
                event = self._loaded[name] = torch.cuda.Event()
                try:
                    for src, dst in pairs:
                        cache[dst].copy_(host[src], non_blocking=True)
                finally:
                    event.record()

    def wait_layer(self, name: str) -> None:
        event = self._loaded.get(name)
        if event is not None:
            torch.cuda.current_stream(self.device).wait_event(event)

    def store_layer(self, name: str, pairs: list[tuple[int, int]]) -> None:
        if not pairs:
            return
        self.wait_layer(name)
        src = torch.tensor([s for s, _ in pairs], device=self.device)
        staged = self.caches[name].index_select(0, src)
        self._io.wait_stream(torch.cuda.current_stream(self.device))
        staged.record_stream(self._io)
        with torch.cuda.stream(self._io):
            for row, (_, dst) in enumerate(pairs):
                self._host[name][dst].copy_(staged[row], non_blocking=True)


class ToyAttention:
    def __init__(self, name: str, connector: KVConnector, heads: int, dim: int):
        self.name = name
        self.connector = connector
        self.heads = heads
        self.dim = dim

    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, blocks: torch.Tensor, slot: int):
        self.connector.wait_layer(self.name)
        cache = self.connector.caches[self.name]
        cache[blocks[-1], 0, slot] = k
        cache[blocks[-1], 1, slot] = v
        pages = cache.index_select(0, blocks)
        keys = pages[:, 0].reshape(-1, self.heads, self.dim).transpose(0, 1)
        values = pages[:, 1].reshape(-1, self.heads, self.dim).transpose(0, 1)
        scores = (keys @ q.unsqueeze(-1)).squeeze(-1) / self.dim**0.5
        return (scores.softmax(dim=-1).unsqueeze(1) @ values).squeeze(1)


def main() -> None:
    device = torch.device("cuda", 0)
    heads, dim, block = 4, 32, 16
    names = [f"layer.{i}" for i in range(6)]
    caches = {name: torch.zeros(64, 2, block, heads, dim, device=device) for name in names}
    connector = KVConnector(caches, host_blocks=128)
    layers = [ToyAttention(name, connector, heads, dim) for name in names]
    blocks = torch.tensor([3, 5, 9], device=device)
    x = torch.randn(heads, dim, device=device)
    for step in range(32):
        if step and step % block == 0:
            connector.start_load([(step % 7, 3), (step % 5, 5)])
        for layer in layers:
            x = layer(x, x, x, blocks, step % block) + x
            if step % block == block - 1:
                connector.store_layer(layer.name, [(9, step % 7), (5, 7 + step % 5)])
    print(x.norm().item())


if __name__ == "__main__":
    main()
