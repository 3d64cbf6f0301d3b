import torch


class SlotRing:
    def __init__(self, numel, dtype, slots=2):
        self.buffers = [torch.empty(numel, dtype=dtype, device="cuda") for _ in range(slots)]
        self.ready = [torch.cuda.Event() for _ in range(slots)]
        self.free = [torch.cuda.Event() for _ in range(slots)]

    def __len__(self):
        return len(self.buffers)


class StreamedMLP:
    """Layers larger than device memory, streamed through a pair of slots."""

    def __init__(self, depth=16, dim=2048):
        self.dim = dim
        self.cpu = [(torch.randn(dim * dim) / dim**0.5).half().pin_memory() for _ in range(depth)]
        self.ring = SlotRing(dim * dim, torch.float16)
        self.copy_stream = torch.cuda.Stream()

    def prefetch(self, layer):
        slot = layer % len(self.ring)
        with torch.cuda.stream(self.copy_stream):
            self.ring.free[slot].wait()
            self.ring.buffers[slot].copy_(self.cpu[layer % len(self.cpu)], non_blocking=True)
            self.ring.ready[slot].record()

    def compute(self, layer, x):
        slot = layer % len(self.ring)
        self.ring.ready[slot].wait()
        w = self.ring.buffers[slot].view(self.dim, self.dim)
        x = torch.relu(x @ w)
        self.ring.free[slot].record()
        return x

    def forward(self, x):
        depth = len(self.cpu)
        for layer in range(min(len(self.ring), depth)):
            self.prefetch(layer)
        for layer in range(depth):
            x = self.compute(layer, x)
            if layer + len(self.ring) < depth:
                self.prefetch(layer + len(self.ring))
        return x


def main():
    mlp = StreamedMLP()
    x = torch.randn(32, 2048, dtype=torch.float16, device="cuda")
    for _ in range(5):
        x = mlp.forward(x)
        x = x / (x.norm(dim=-1, keepdim=True) + 1e-3)
    print(x.float().mean().item())


if __name__ == "__main__":
    main()
