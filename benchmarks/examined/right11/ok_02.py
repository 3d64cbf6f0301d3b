from __future__ import annotations

import torch
from torch import nn


class LayerLoadingEvents:
    def __init__(self, num_layers: int) -> None:
        self.load_events = [torch.cuda.Event() for _ in range(num_layers)]
        self.start_event = torch.cuda.Event()

    def complete(self, layer_id: int) -> None:
        self.load_events[layer_id].record()

    def wait(self, layer_id: int) -> None:
        torch.cuda.current_stream().wait_event(self.load_events[layer_id])

    @property
    def finish_event(self) -> torch.cuda.Event:
        return self.load_events[-1]


class LayerDoneCounter:
    """Round-robin set of per-layer events, one set per load in flight."""

    def __init__(self, num_layers: int, num_counters: int = 3) -> None:
        self.num_counters = num_counters
        self.events = [LayerLoadingEvents(num_layers) for _ in range(num_counters)]
        self.producer_index = -1
        self.consumer_index = -1

    def update_producer(self) -> int:
        self.producer_index = (self.producer_index + 1) % self.num_counters
        self.events[self.producer_index].finish_event.synchronize()
        return self.producer_index

    def set_consumer(self, index: int) -> None:
        self.consumer_index = index

    def wait_until(self, layer_id: int) -> None:
        if self.consumer_index < 0:
            return
        self.events[self.consumer_index].wait(layer_id)


class TokenToKVPool:
    def __init__(self, layers: int, tokens: int, dim: int) -> None:
        self._k = [torch.zeros(tokens, dim, device="cuda") for _ in range(layers)]
        self.counter: LayerDoneCounter | None = None

    def register(self, counter: LayerDoneCounter) -> None:
        self.counter = counter

    def get_key_buffer(self, layer_id: int) -> torch.Tensor:
        if self.counter is not None:
            self.counter.wait_until(layer_id)
        return self._k[layer_id]

    def raw(self, layer_id: int) -> torch.Tensor:
        return self._k[layer_id]


class CacheController:
    def __init__(self, pool: TokenToKVPool, layers: int, tokens: int, dim: int) -> None:
        self.pool = pool
        self.layers = layers
        self.host = [torch.randn(tokens, dim).pin_memory() for _ in range(layers)]
        self.load_stream = torch.cuda.Stream()
        self.counter = LayerDoneCounter(layers)
        pool.register(self.counter)

    def start_loading(self, lo: int, hi: int) -> int:
        index = self.counter.update_producer()
        events = self.counter.events[index]
        events.start_event.record()
        with torch.cuda.stream(self.load_stream):
            events.start_event.wait(self.load_stream)
            for layer in range(self.layers):
                self.pool.raw(layer)[lo:hi].copy_(self.host[layer][lo:hi], non_blocking=True)
                events.complete(layer)
        return index


class Attention(nn.Module):
    def __init__(self, pool: TokenToKVPool, layer_id: int, dim: int) -> None:
        super().__init__()
        self.pool, self.layer_id = pool, layer_id
        self.q = nn.Linear(dim, dim, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        k = self.pool.get_key_buffer(self.layer_id)
        scores = torch.softmax(self.q(x) @ k.t(), dim=-1)
        return x + scores @ k


@torch.no_grad()
def main() -> None:
    layers, tokens, dim = 8, 1024, 128
    pool = TokenToKVPool(layers, tokens, dim)
    controller = CacheController(pool, layers, tokens, dim)
    model = nn.ModuleList(Attention(pool, i, dim) for i in range(layers)).cuda()
    for step in range(12):
        lo = (step * 128) % tokens
        index = controller.start_loading(lo, lo + 128)
        controller.counter.set_consumer(index)
        x = torch.randn(4, dim, device="cuda")
        for block in model:
            x = block(x)
        print(step, x.norm().item())


if __name__ == "__main__":
    main()
