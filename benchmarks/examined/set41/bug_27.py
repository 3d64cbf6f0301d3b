"""Restore a host KV prefix layer by layer while the first layers already run."""
from dataclasses import dataclass
from typing import List, Tuple

import torch
import torch.nn.functional as F


@dataclass
class PrefixSpec:
    layers: int = 32
    heads: int = 16
    head_dim: int = 128
    prefix: int = 4096
    new_tokens: int = 128
    ahead: int = 2
    dtype: torch.dtype = torch.float16


class EventRing:
    """Recycles a fixed number of events to avoid creating them every step."""

    def __init__(self, depth: int):
        self.events = [torch.cuda.Event() for _ in range(depth)]
        self.i = 0

    def next(self) -> torch.cuda.Event:
        ev = self.events[self.i]
        self.i = (self.i + 1) % len(self.events)
        return ev


class HostPrefix:
    def __init__(self, spec: PrefixSpec):
        shape = (spec.heads, spec.prefix, spec.head_dim)
        self.k = [torch.randn(shape).to(spec.dtype).pin_memory() for _ in range(spec.layers)]
        self.v = [torch.randn(shape).to(spec.dtype).pin_memory() for _ in range(spec.layers)]


class DevicePrefix:
    def __init__(self, spec: PrefixSpec, device: torch.device):
        total = spec.prefix + spec.new_tokens
        shape = (spec.layers, spec.heads, total, spec.head_dim)
        self.k = torch.zeros(shape, dtype=spec.dtype, device=device)
        self.v = torch.zeros(shape, dtype=spec.dtype, device=device)


class PrefixLoader:
    def __init__(self, spec: PrefixSpec, host: HostPrefix, dev: DevicePrefix):
        self.spec, self.host, self.dev = spec, host, dev
        self.k_stream = torch.cuda.Stream()
        self.v_stream = torch.cuda.Stream()
        self.ring = EventRing(spec.ahead + 1)
        self.tickets: List[Tuple[torch.cuda.Event, torch.cuda.Event]] = []

    def begin(self) -> None:
        cur = torch.cuda.current_stream()
        self.k_stream.wait_stream(cur)
        self.v_stream.wait_stream(cur)
        self.tickets = []
        for layer in range(min(self.spec.ahead, self.spec.layers)):
            self._issue(layer)

    def _issue(self, layer: int) -> None:
        n = self.spec.prefix
        with torch.cuda.stream(self.k_stream):
            self.dev.k[layer, :, :n].copy_(self.host.k[layer], non_blocking=True)
            k_ev = self.ring.next()
            k_ev.record(self.k_stream)
        with torch.cuda.stream(self.v_stream):
            self.dev.v[layer, :, :n].copy_(self.host.v[layer], non_blocking=True)
            v_ev = self.ring.next()
            v_ev.record(self.v_stream)
        self.tickets.append((k_ev, v_ev))

    def await_layer(self, layer: int) -> None:
        cur = torch.cuda.current_stream()
        for ev in self.tickets[layer]:
            cur.wait_event(ev)
        nxt = layer + self.spec.ahead
        if nxt < self.spec.layers:
            self._issue(nxt)


class PrefixModel:
    def __init__(self, spec: PrefixSpec, device: torch.device):
        self.spec = spec
        d = spec.heads * spec.head_dim
        mk = lambda: torch.randn(d, d, device=device, dtype=spec.dtype) / d ** 0.5
        self.wq = [mk() for _ in range(spec.layers)]
        self.wk = [mk() for _ in range(spec.layers)]
        self.wv = [mk() for _ in range(spec.layers)]

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(-1, self.spec.heads, self.spec.head_dim).transpose(0, 1)

    def layer(self, i: int, x: torch.Tensor, dev: DevicePrefix) -> torch.Tensor:
        n = self.spec.prefix
        q = self._heads(x @ self.wq[i])
        dev.k[i, :, n:] = self._heads(x @ self.wk[i])
        dev.v[i, :, n:] = self._heads(x @ self.wv[i])
        o = F.scaled_dot_product_attention(q[None], dev.k[i][None], dev.v[i][None])[0]
        return x + o.transpose(0, 1).reshape(x.shape)


class PrefixRunner:
    def __init__(self, spec: PrefixSpec):
        self.spec = spec
        self.device = torch.device("cuda")
        self.dev = DevicePrefix(spec, self.device)
        self.model = PrefixModel(spec, self.device)

    @torch.inference_mode()
    def extend(self, host: HostPrefix, x: torch.Tensor) -> torch.Tensor:
        loader = PrefixLoader(self.spec, host, self.dev)
        loader.begin()
        for i in range(self.spec.layers):
            loader.await_layer(i)
            x = self.model.layer(i, x, self.dev)
        return x


def main():
    spec = PrefixSpec()
    runner = PrefixRunner(spec)
    host = HostPrefix(spec)
    x = torch.randn(spec.new_tokens, spec.heads * spec.head_dim, device="cuda", dtype=spec.dtype)
    y = runner.extend(host, x)
    torch.cuda.synchronize()
    print(y.float().abs().mean().item())


if __name__ == "__main__":
    main()
