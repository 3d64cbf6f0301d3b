"""Host/device KV tiers with layer-wise load-back for a hybrid attention model."""
from dataclasses import dataclass
from typing import Dict, List, Tuple

import torch


@dataclass
class Move:
    host_start: int
    dev_start: int
    length: int


class LayerTransferCounter:
    def __init__(self, num_layers: int):
        self.events = [torch.cuda.Event() for _ in range(num_layers)]

    def complete(self, layer_id: int, stream: torch.cuda.Stream) -> None:
        self.events[layer_id].record(stream)

    def wait_until(self, layer_id: int) -> None:
        torch.cuda.current_stream().wait_event(self.events[layer_id])


class LatentPool:
    """One latent + rope buffer per full-attention layer."""

    def __init__(self, layers: int, slots: int, rank: int, rope: int, device: str):
        self.rank = rank
        self.counter = None
        self.buffers = [
            torch.zeros(slots, rank + rope, dtype=torch.bfloat16, device=device)
            for _ in range(layers)
        ]

    def register_counter(self, counter: LayerTransferCounter) -> None:
        self.counter = counter

    def key_buffer(self, layer_id: int) -> torch.Tensor:
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        return self.buffers[layer_id]

    def mla_pair(self, layer_id: int, loc: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        rows = self.key_buffer(layer_id).index_select(0, loc)
        return rows[:, : self.rank], rows[:, self.rank:]


class HybridPool:
    """Maps global layer ids to the full-attention pool and owns the transfer counter."""

    def __init__(self, full_layers: List[int], inner: LatentPool):
        self.inner = inner
        self.mapping: Dict[int, int] = {g: i for i, g in enumerate(full_layers)}
        self.counter = None

    def register_counter(self, counter: LayerTransferCounter) -> None:
        self.counter = counter

    def key_buffer(self, layer_id: int) -> torch.Tensor:
        local = self.mapping[layer_id]
        if self.counter is not None:
            self.counter.wait_until(local)
        return self.inner.key_buffer(local)

    def mla_pair(self, layer_id: int, loc: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
        return self.inner.mla_pair(self.mapping[layer_id], loc)


class CacheController:
    def __init__(self, pool: HybridPool, host_slots: int):
        self.pool = pool
        self.load_stream = torch.cuda.Stream()
        self.host = [
            torch.zeros(host_slots, b.shape[1], dtype=b.dtype, pin_memory=True)
            for b in pool.inner.buffers
        ]
        self.counter = LayerTransferCounter(len(self.host))
        pool.register_counter(self.counter)

    def load_back(self, moves: List[Move]) -> None:
        self.load_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.load_stream):
            for i, buf in enumerate(self.pool.inner.buffers):
                for m in moves:
                    src = self.host[i][m.host_start:m.host_start + m.length]
                    buf[m.dev_start:m.dev_start + m.length].copy_(src, non_blocking=True)
                self.counter.complete(i, self.load_stream)


def extend(pool: HybridPool, layers: List[int], query: torch.Tensor, loc: torch.Tensor):
    hidden = query
    for layer_id in layers:
        latent, rope = pool.mla_pair(layer_id, loc)
        scores = hidden @ latent.t() + rope.float().mean(dim=1).to(hidden.dtype)
        hidden = hidden + torch.softmax(scores, dim=-1) @ latent
    return hidden


def main() -> None:
    full_layers = [3, 7, 11, 15]
    pool = HybridPool(full_layers, LatentPool(len(full_layers), 16384, 512, 64, "cuda"))
    controller = CacheController(pool, host_slots=65536)
    loc = torch.arange(4096, device="cuda")
    query = torch.randn(32, 512, dtype=torch.bfloat16, device="cuda")
    controller.load_back([Move(0, 0, 2048), Move(8192, 2048, 2048)])
    out = extend(pool, full_layers, query, loc)
    print(out.float().norm().item())


if __name__ == "__main__":
    main()
