import torch
from torch import nn


class DeviceSlot:
    def __init__(self, numel, dtype):
        self.flat = torch.empty(numel, dtype=dtype, device="cuda")
        self.loaded = torch.cuda.Event()
        self.idle = torch.cuda.Event()


class LayerGroup:
    def __init__(self, layer: nn.Module):
        self.layer = layer
        self.shapes = [(p, p.shape, p.numel()) for p in layer.parameters()]
        flat = torch.cat([p.detach().reshape(-1) for p, _, _ in self.shapes])
        self.host = flat.pin_memory()

    def bind(self, flat):
        off = 0
        for p, shape, n in self.shapes:
            p.data = flat[off:off + n].view(shape)
            off += n

    @property
    def numel(self):
        return self.host.numel()


class StreamedStack(nn.Module):
    def __init__(self, layers, dtype=torch.float16):
        super().__init__()
        self.groups = [LayerGroup(layer.to(dtype)) for layer in layers]
        size = max(g.numel for g in self.groups)
        self.slots = [DeviceSlot(size, dtype) for _ in range(2)]
        self.copy_stream = torch.cuda.Stream()
        self.copy_stream.wait_stream(torch.cuda.current_stream())

    def _slot(self, index):
        return self.slots[index % len(self.slots)]

    def _load(self, index):
        group, slot = self.groups[index], self._slot(index)
        self.copy_stream.wait_event(slot.idle)
        with torch.cuda.stream(self.copy_stream):
            slot.flat[:group.numel].copy_(group.host, non_blocking=True)
            slot.loaded.record()

    @torch.no_grad()
    def forward(self, x):
        compute = torch.cuda.current_stream()
        self._load(0)
        for i, group in enumerate(self.groups):
            if i + 1 < len(self.groups):
                self._load(i + 1)
            slot = self._slot(i)
            compute.wait_event(slot.loaded)
            group.bind(slot.flat)
            x = group.layer(x)
            slot.idle.record(compute)
        return x


def main():
    layers = [nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)) for _ in range(12)]
    net = StreamedStack(layers)
    x = torch.randn(8, 1024, dtype=torch.float16, device="cuda")
    for _ in range(4):
        x = net(x)
    print(x.float().norm().item())


if __name__ == "__main__":
    main()
