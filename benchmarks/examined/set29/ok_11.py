"""Optimizer step streamed layer by layer: states come up, are used, and go back down."""
from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class LayerState:
    params: list[nn.Parameter]
    exp_avg: list[torch.Tensor] = field(default_factory=list)
    exp_avg_sq: list[torch.Tensor] = field(default_factory=list)
    saved: torch.cuda.Event = field(default_factory=torch.cuda.Event)

    def __post_init__(self) -> None:
        for p in self.params:
            self.exp_avg.append(torch.zeros(p.shape, dtype=torch.float32).pin_memory())
            self.exp_avg_sq.append(torch.zeros(p.shape, dtype=torch.float32).pin_memory())


class PerLayerAdamW:
    def __init__(self, layers: list[nn.Module], lr: float, prefetch_layers: int = 1) -> None:
        self.layers = [LayerState(list(m.parameters())) for m in layers if any(True for _ in m.parameters())]
        self.lr = lr
        self.betas = (0.9, 0.95)
        self.eps = 1e-8
        self.prefetch_layers = prefetch_layers
        self.h2d_stream = torch.cuda.Stream()
        self.d2h_stream = torch.cuda.Stream()
        self.step_count = 0

    def _prefetch(self, layer: LayerState):
        with torch.cuda.stream(self.h2d_stream):
            self.h2d_stream.wait_event(layer.saved)
            m = [t.to("cuda", non_blocking=True) for t in layer.exp_avg]
            v = [t.to("cuda", non_blocking=True) for t in layer.exp_avg_sq]
            ready = self.h2d_stream.record_event()
        return m, v, ready

    def _evict(self, layer: LayerState, m: list[torch.Tensor], v: list[torch.Tensor]) -> None:
        self.d2h_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.d2h_stream):
            for host, dev in zip(layer.exp_avg + layer.exp_avg_sq, m + v):
                host.copy_(dev, non_blocking=True)
                dev.record_stream(self.d2h_stream)
            layer.saved.record(self.d2h_stream)

    def _update(self, layer: LayerState, m: list[torch.Tensor], v: list[torch.Tensor]) -> None:
        b1, b2 = self.betas
        c1, c2 = 1 - b1 ** self.step_count, 1 - b2 ** self.step_count
        for p, mm, vv in zip(layer.params, m, v):
            grad = p.grad.float()
            mm.mul_(b1).add_(grad, alpha=1 - b1)
            vv.mul_(b2).addcmul_(grad, grad, value=1 - b2)
            p.data.addcdiv_(mm / c1, (vv / c2).sqrt_().add_(self.eps), value=-self.lr)

    @torch.no_grad()
    def step(self) -> None:
        self.step_count += 1
        compute_stream = torch.cuda.current_stream()
        inflight = {i: self._prefetch(self.layers[i])
                    for i in range(min(self.prefetch_layers, len(self.layers)))}
        for i, layer in enumerate(self.layers):
            nxt = i + self.prefetch_layers
            if nxt < len(self.layers):
                inflight[nxt] = self._prefetch(self.layers[nxt])
            m, v, ready = inflight.pop(i)
            compute_stream.wait_event(ready)
            for t in m + v:
                t.record_stream(compute_stream)
            self._update(layer, m, v)
            self._evict(layer, m, v)

    def zero_grad(self) -> None:
        for layer in self.layers:
            for p in layer.params:
                p.grad = None

    def state_snapshot(self) -> list[torch.Tensor]:
        self.d2h_stream.synchronize()
        return [t.clone() for layer in self.layers for t in layer.exp_avg]


def main() -> None:
    model = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(10)]).cuda()
    optimizer = PerLayerAdamW(list(model), lr=1e-4)
    for _ in range(10):
        loss = model(torch.randn(128, 2048, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print(loss.item(), sum(t.norm() for t in optimizer.state_snapshot()).item())


if __name__ == "__main__":
    main()
