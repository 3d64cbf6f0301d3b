"""Inference of a deep linear stack whose weights live in pinned host memory."""
from typing import List

import torch
import torch.nn.functional as F


class StreamedStack:
    """Keeps only two layers resident on the device at any time."""

    def __init__(self, layers: List[torch.nn.Linear], device: torch.device):
        self.device = device
        self.host = [l.weight.detach().to("cpu").pin_memory() for l in layers]
        self.bias = [l.bias.detach().to(device) for l in layers]
        numel = max(w.numel() for w in self.host)
        self.fetch_stream = torch.cuda.Stream(device=device)
        self.slab = [torch.empty(numel, device=device) for _ in range(2)]
        for slab in self.slab:
            slab.record_stream(self.fetch_stream)
        self.fetch_stream.wait_stream(torch.cuda.current_stream(device))
        self.loaded = [torch.cuda.Event() for _ in range(2)]
        self.released = [torch.cuda.Event() for _ in range(2)]

    def __len__(self) -> int:
        return len(self.host)

    def _fetch(self, i: int) -> None:
        k = i & 1
        source = self.host[i]
        with torch.cuda.stream(self.fetch_stream):
            self.fetch_stream.wait_event(self.released[k])
            self.slab[k][: source.numel()].view_as(source).copy_(source, non_blocking=True)
            self.loaded[k].record(self.fetch_stream)

    def _apply(self, i: int, x: torch.Tensor, current: torch.cuda.Stream) -> torch.Tensor:
        k = i & 1
        shape = self.host[i].shape
        current.wait_event(self.loaded[k])
        self.slab[k].record_stream(current)
        try:
            weight = self.slab[k][: shape.numel()].view(shape)
            x = F.linear(x, weight, self.bias[i])
            return F.gelu(x) if i + 1 < len(self.host) else x
        finally:
            self.released[k].record(current)

    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        current = torch.cuda.current_stream(self.device)
        self._fetch(0)
        for i in range(len(self.host)):
            if i + 1 < len(self.host):
                self._fetch(i + 1)
            x = self._apply(i, x, current)
        return x

    __call__ = forward

    @torch.inference_mode()
    def replace_layer(self, i: int, weight: torch.Tensor) -> None:
        if weight.shape != self.host[i].shape:
            raise ValueError("shape mismatch")
        fresh = torch.empty(weight.shape, dtype=torch.float32, pin_memory=True)
        fresh.copy_(weight)
        self.host[i] = fresh


def evaluate(stack: StreamedStack, batches, device: torch.device) -> List[int]:
    predictions: List[int] = []
    for batch in batches:
        logits = stack(batch.to(device))
        predictions.extend(logits.argmax(dim=-1).tolist())
    return predictions
