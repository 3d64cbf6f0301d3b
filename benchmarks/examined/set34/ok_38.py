"""Layer streaming from page-locked masters through two device slots."""
from typing import List

import torch
import torch.nn.functional as F


class HostLayer:
    def __init__(self, dim: int, generator: torch.Generator):
        weight = torch.randn(dim, dim, generator=generator).div_(dim**0.5)
        self.weight = weight.to(torch.float16).pin_memory()
        self.bias = torch.zeros(dim, dtype=torch.float16).pin_memory()


class DeviceSlot:
    def __init__(self, dim: int, device: torch.device):
        self.weight = torch.empty(dim, dim, dtype=torch.float16, device=device)
        self.bias = torch.empty(dim, dtype=torch.float16, device=device)
        self.loaded = torch.cuda.Event()
        self.released = torch.cuda.Event()


class StreamedStack:
    """Runs more layers than fit on the device; slot i % 2 holds layer i."""

    def __init__(self, dim: int, depth: int, device: torch.device):
        generator = torch.Generator().manual_seed(0)
        self.device = device
        self.layers: List[HostLayer] = [HostLayer(dim, generator) for _ in range(depth)]
        self.slots = [DeviceSlot(dim, device) for _ in range(2)]
        self.copy_stream = torch.cuda.Stream(device, priority=-1)
        self.adapters = {}
        torch.cuda.synchronize(device)

    def set_adapter(self, index: int, delta: torch.Tensor) -> None:
        produced = torch.cuda.Event()
        produced.record(torch.cuda.current_stream(self.device))
        self.adapters[index] = (delta, produced)

    def _prefetch(self, index: int) -> None:
        slot, layer = self.slots[index % 2], self.layers[index]
        self.copy_stream.wait_event(slot.released)
        with torch.cuda.stream(self.copy_stream):
            slot.weight.copy_(layer.weight, non_blocking=True)
            slot.bias.copy_(layer.bias, non_blocking=True)
            slot.loaded.record(self.copy_stream)

    def _apply(self, index: int, x: torch.Tensor) -> torch.Tensor:
        slot = self.slots[index % 2]
        compute = torch.cuda.current_stream(self.device)
        compute.wait_event(slot.loaded)
        if index in self.adapters:
            delta, produced = self.adapters[index]
            compute.wait_event(produced)
            slot.weight.add_(delta)
            delta.record_stream(compute)
        y = F.gelu(F.linear(x, slot.weight, slot.bias))
        slot.released.record(compute)
        return x + y

    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._prefetch(0)
        for index in range(len(self.layers)):
            if index + 1 < len(self.layers):
                self._prefetch(index + 1)
            x = self._apply(index, x)
        return x


def main(rounds: int = 10) -> None:
    device = torch.device("cuda", 0)
    stack = StreamedStack(4096, 7, device)
    stack.set_adapter(3, torch.full((4096, 4096), 1e-4, dtype=torch.float16, device=device))
    streams = [torch.cuda.Stream(device) for _ in range(2)]
    x = torch.randn(512, 4096, dtype=torch.float16, device=device)
    torch.cuda.synchronize(device)
    norms = []
    for k in range(rounds):
        with torch.cuda.stream(streams[k % 2]):
            y = stack.forward(x)
            norms.append(y.float().norm())
            y.record_stream(torch.cuda.current_stream(device))
    torch.cuda.synchronize(device)
    print([float(n) for n in norms])


if __name__ == "__main__":
    main()
