"""Runs a stack of layers from host memory through two device buffers."""
import math

import torch
from torch import nn


class LayerStore:
    """Page-locked flat copy of the weights of one layer."""

    def __init__(self, layer):
        self.names, self.shapes, tensors = [], [], []
        for name, param in layer.named_parameters():
            self.names.append(name)
            self.shapes.append(param.shape)
            tensors.append(param.detach().reshape(-1).cpu())
        flat = torch.cat(tensors)
        self.flat = torch.empty(flat.shape, dtype=flat.dtype, pin_memory=True)
        self.flat.copy_(flat)

    @property
    def numel(self):
        return self.flat.numel()

    def bind(self, layer, buffer):
        offset = 0
        for name, shape in zip(self.names, self.shapes):
            size = math.prod(shape)
            layer.get_parameter(name).data = buffer[offset:offset + size].view(shape)
            offset += size


class LayerStreamer:
    def __init__(self, layers, device="cuda"):
        self.layers = list(layers)
        self.device = torch.device(device)
        self.stores = [LayerStore(layer) for layer in self.layers]
        size = max(store.numel for store in self.stores)
        dtype = self.stores[0].flat.dtype
        self.buffers = [torch.empty(size, dtype=dtype, device=self.device) for _ in range(2)]
        self.loaded = [torch.cuda.Event() for _ in range(2)]
        self.used = [torch.cuda.Event() for _ in range(2)]
        self.stream = torch.cuda.Stream(device=self.device)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        self.in_flight = None
        for index, layer in enumerate(self.layers):
            self.stores[index].bind(layer, self.buffers[index % 2])
            layer.register_forward_pre_hook(lambda *_, i=index: self._before(i))
            layer.register_forward_hook(lambda *_, i=index: self._after(i))

    def _load(self, index):
        side = index % 2
        store = self.stores[index]
        with torch.cuda.stream(self.stream):
            self.stream.wait_event(self.used[side])
            self.buffers[side][: store.numel].copy_(store.flat, non_blocking=True)
            self.loaded[side].record()
        self.in_flight = index

    def _before(self, index):
        if torch.is_grad_enabled():
            raise RuntimeError("streamed layers serve inference only")
        if self.in_flight != index:
            self._load(index)
        torch.cuda.current_stream(self.device).wait_event(self.loaded[index % 2])
        if index + 1 < len(self.layers):
            self._load(index + 1)

    def _after(self, index):
        self.used[index % 2].record(torch.cuda.current_stream(self.device))


class FeedForward(nn.Module):
    def __init__(self, hidden, inner):
        super().__init__()
        self.norm = nn.LayerNorm(hidden)
        self.up = nn.Linear(hidden, inner)
        self.down = nn.Linear(inner, hidden)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class StreamedModel(nn.Module):
    def __init__(self, hidden=4096, inner=16384, depth=12, device="cuda"):
        super().__init__()
        self.layers = nn.ModuleList(FeedForward(hidden, inner) for _ in range(depth))
        self.streamer = LayerStreamer(self.layers, device)

    @torch.no_grad()
    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


if __name__ == "__main__":
    model = StreamedModel()
    batch = torch.randn(64, 4096, device="cuda")
    for _ in range(3):
        batch = model(batch)
    print(batch.abs().mean().item())
