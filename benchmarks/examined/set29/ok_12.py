"""Master parameters kept on the host and streamed through two device layer buffers."""
from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class LayerBuffer:
    master: torch.Tensor
    fetched: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    updated: torch.cuda.Event = field(default_factory=torch.cuda.Event)
    stored: torch.cuda.Event = field(default_factory=torch.cuda.Event)


class MasterParamStore:
    """fp32 masters in page-locked memory; one layer per device buffer, two buffers."""

    def __init__(self, weights: list[torch.Tensor]) -> None:
        self.host = [w.detach().float().cpu().pin_memory() for w in weights]
        numel = max(w.numel() for w in weights)
        self.buffers = [LayerBuffer(torch.empty(numel, device="cuda")) for _ in range(2)]
        self.fetch_stream = torch.cuda.Stream()
        self.store_stream = torch.cuda.Stream()
        self.fetch_stream.wait_stream(torch.cuda.current_stream())

    def view(self, layer: int) -> torch.Tensor:
        host = self.host[layer]
        return self.buffers[layer % 2].master[: host.numel()].view(host.shape)

    def begin(self) -> None:
        """Fetches of a new step come after all stores of the previous one."""
        self.fetch_stream.wait_stream(self.store_stream)

    def fetch(self, layer: int) -> None:
        buf = self.buffers[layer % 2]
        with torch.cuda.stream(self.fetch_stream):
            self.fetch_stream.wait_event(buf.stored)
            self.view(layer).copy_(self.host[layer], non_blocking=True)
            buf.fetched.record(self.fetch_stream)

    def get(self, layer: int) -> torch.Tensor:
        torch.cuda.current_stream().wait_event(self.buffers[layer % 2].fetched)
        return self.view(layer)

    def store(self, layer: int) -> None:
        buf = self.buffers[layer % 2]
        buf.updated.record(torch.cuda.current_stream())
        with torch.cuda.stream(self.store_stream):
            self.store_stream.wait_event(buf.updated)
            self.host[layer].copy_(self.view(layer), non_blocking=True)
            buf.stored.record(self.store_stream)

    def export(self) -> list[torch.Tensor]:
        self.store_stream.synchronize()
        return [h.clone() for h in self.host]


class OffloadedSGD:
    def __init__(self, layers: list[nn.Linear], lr: float) -> None:
        self.layers = layers
        self.lr = lr
        self.store = MasterParamStore([l.weight for l in layers])

    @torch.no_grad()
    def step(self) -> None:
        self.store.begin()
        self.store.fetch(0)
        for i, layer in enumerate(self.layers):
            if i + 1 < len(self.layers):
                self.store.fetch(i + 1)
            master = self.store.get(i)
            master.add_(layer.weight.grad.float(), alpha=-self.lr)
            layer.weight.copy_(master)
            self.store.store(i)

    def zero_grad(self) -> None:
        for layer in self.layers:
            layer.weight.grad = None


def main() -> None:
    layers = [nn.Linear(1024, 1024, bias=False, device="cuda", dtype=torch.bfloat16) for _ in range(9)]
    model = nn.Sequential(*layers)
    optimizer = OffloadedSGD(layers, lr=1e-2)
    for _ in range(20):
        x = torch.randn(64, 1024, device="cuda", dtype=torch.bfloat16)
        loss = (model(x) - x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(loss.item(), sum(m.norm() for m in optimizer.store.export()).item())


if __name__ == "__main__":
    main()
