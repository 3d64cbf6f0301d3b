import threading
from typing import List, Optional

import torch


class LayerLoadingEvents:
    """One load event per layer, re-armed for each batch."""

    def __init__(self, num_layers: int):
        self._events = [torch.cuda.Event() for _ in range(num_layers)]

    def complete(self, layer: int) -> None:
        self._events[layer].record()

    def wait(self, layer: int) -> None:
        torch.cuda.current_stream().wait_event(self._events[layer])

    def finished(self) -> torch.cuda.Event:
        return self._events[-1]


class KVPool:
    def __init__(self, layers: int, slots: int, heads: int, dim: int, device="cuda"):
        self.k = [torch.zeros(slots, heads, dim, device=device) for _ in range(layers)]
        self.v = [torch.zeros(slots, heads, dim, device=device) for _ in range(layers)]
        self.counter: Optional[LayerLoadingEvents] = None

    def register(self, counter: Optional[LayerLoadingEvents]) -> None:
        self.counter = counter

    def get_kv(self, layer: int):
        if self.counter is not None:
            self.counter.wait(layer)
        return self.k[layer], self.v[layer]


class HostCacheController:
    def __init__(self, pool: KVPool, host_k: torch.Tensor, host_v: torch.Tensor):
        self.pool = pool
        self.host_k, self.host_v = host_k, host_v
        self.layers = len(pool.k)
        self.load_stream = torch.cuda.Stream()
        self.lock = threading.Lock()

    def start_loading(self, host_start: int, length: int) -> LayerLoadingEvents:
        counter = LayerLoadingEvents(self.layers)
        with self.lock:
            self.load_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.load_stream):
                for layer in range(self.layers):
                    src = slice(host_start, host_start + length)
                    self.pool.k[layer][:length].copy_(self.host_k[layer, src], non_blocking=True)
                    self.pool.v[layer][:length].copy_(self.host_v[layer, src], non_blocking=True)
                    counter.complete(layer)
        return counter


@torch.inference_mode()
def forward(pool: KVPool, hidden: torch.Tensor, length: int) -> torch.Tensor:
    for layer in range(len(pool.k)):
        k, v = pool.get_kv(layer)
        attn = torch.softmax(torch.einsum("hd,shd->hs", hidden, k[:length]) / k.shape[-1] ** 0.5, dim=-1)
        hidden = hidden + torch.einsum("hs,shd->hd", attn, v[:length])
    return hidden


def main():
    layers, heads, dim = 24, 8, 128
    pool = KVPool(layers, 4096, heads, dim)
    host_k = torch.randn(layers, 16384, heads, dim).pin_memory()
    host_v = torch.randn(layers, 16384, heads, dim).pin_memory()
    ctl = HostCacheController(pool, host_k, host_v)
    results: List[torch.Tensor] = []
    for prefix in (0, 512, 4096, 8192):
        pool.register(ctl.start_loading(prefix, 2048))
        results.append(forward(pool, torch.randn(heads, dim, device="cuda"), 2048))
    print(torch.stack(results).norm(dim=-1).cpu())


if __name__ == "__main__":
    main()
