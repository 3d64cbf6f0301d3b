"""Lazily materialized weights behind module attributes."""
import torch
from torch import nn


class LazyTensor:
    def __init__(self, host: torch.Tensor):
        self.host = host
        self._device = None
        self._event = None

    def start(self, stream: torch.cuda.Stream):
        if self._device is None:
            with torch.cuda.stream(stream):
                self._device = self.host.to("cuda", non_blocking=True)
                self._event = stream.record_event()

    def materialize(self) -> torch.Tensor:
        if self._device is None:
            self._device = self.host.to("cuda")
        elif self._event is not None:
            self._event.synchronize()
            self._event = None
        return self._device


class Lazy:
    def __set_name__(self, owner, name):
        self.slot = "_lazy_" + name

    def __get__(self, obj, owner=None):
        if obj is None:
            return self
        return getattr(obj, self.slot).materialize()

    def __set__(self, obj, value):
        setattr(obj, self.slot, LazyTensor(value.pin_memory()))


class LazyLinear(nn.Module):
    kernel = Lazy()
    bias_vec = Lazy()

    def __init__(self, dim):
        super().__init__()
        self.kernel = torch.randn(dim, dim) * 0.02
        self.bias_vec = torch.zeros(dim)

    def prefetch(self, stream):
        self._lazy_kernel.start(stream)
        self._lazy_bias_vec.start(stream)

    def forward(self, x):
        return torch.addmm(self.bias_vec, x, self.kernel)


@torch.inference_mode()
def main():
    stream = torch.cuda.Stream()
    layers = nn.ModuleList(LazyLinear(512) for _ in range(6))
    for layer in layers[:-1]:
        layer.prefetch(stream)
    x = torch.randn(8, 512, device="cuda")
    for layer in layers:
        x = torch.relu(layer(x))
    print(x.sum().item())


if __name__ == "__main__":
    main()
