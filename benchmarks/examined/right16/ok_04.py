"""Inference over a stack of layers whose weights live in pinned host memory."""
from __future__ import annotations

import torch
import torch.nn.functional as F


class StreamedStack:
    def __init__(self, layers: list[torch.nn.Linear], device: torch.device):
        if not layers:
            raise ValueError("empty stack")
        self.device = device
        self.shapes = [(layer.out_features, layer.in_features) for layer in layers]
        self._host: list[torch.Tensor] = []
        for layer in layers:
            flat = torch.cat([layer.weight.detach().flatten(), layer.bias.detach().flatten()])
            self._host.append(flat.float().cpu().pin_memory())
        widest = max(flat.numel() for flat in self._host)
        self._slots = [torch.empty(widest, device=device) for _ in range(2)]
        self._copy = torch.cuda.Stream(device=device)
        self._copy.wait_stream(torch.cuda.current_stream(device))
        for buf in self._slots:
            buf.record_stream(self._copy)
        self._ready = [torch.cuda.Event() for _ in range(2)]
        self._free = [torch.cuda.Event() for _ in range(2)]

    def _fetch(self, index: int) -> None:
        slot = index % 2
        host = self._host[index]
        self._copy.wait_event(self._free[slot])
        with torch.cuda.stream(self._copy):
            self._slots[slot][: host.numel()].copy_(host, non_blocking=True)
        self._ready[slot].record(self._copy)

    def _views(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        out_features, in_features = self.shapes[index]
        buf = self._slots[index % 2]
        weight = buf[: out_features * in_features].view(out_features, in_features)
        bias = buf[out_features * in_features : out_features * in_features + out_features]
        return weight, bias

    @torch.no_grad()
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        compute = torch.cuda.current_stream(self.device)
        self._copy.wait_stream(compute)
        last = len(self._host) - 1
        self._fetch(0)
        for index in range(last + 1):
            if index < last:
                self._fetch(index + 1)
            slot = index % 2
            compute.wait_event(self._ready[slot])
            weight, bias = self._views(index)
            x = F.linear(x, weight, bias)
            self._free[slot].record(compute)
            if index < last:
                x = F.gelu(x)
        return x


def reference(layers: list[torch.nn.Linear], x: torch.Tensor) -> torch.Tensor:
    for i, layer in enumerate(layers):
        x = layer(x)
        if i < len(layers) - 1:
            x = F.gelu(x)
    return x


def main() -> None:
    device = torch.device("cuda", 0)
    torch.manual_seed(0)
    dims = [512, 2048, 1024, 2048, 256]
    layers = [torch.nn.Linear(a, b) for a, b in zip(dims, dims[1:])]
    stack = StreamedStack(layers, device)
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(32, dims[0])
            got = stack(x.to(device)).cpu()
            want = reference(layers, x)
            print(float((got - want).abs().max()))


if __name__ == "__main__":
    main()
