import torch


class HostBank:
    """Every expert of every layer in page-locked rows."""

    def __init__(self, layers, experts, inner, hidden, dtype=torch.float16):
        self.shape = (2, inner, hidden)
        self.layers, self.experts = layers, experts
        self.dtype = dtype
        gen = torch.Generator().manual_seed(0)
        self.rows = [
            torch.randn((experts,) + self.shape, generator=gen)
            .mul_(0.02).to(dtype).pin_memory()
            for _ in range(layers)
        ]

    def __getitem__(self, key):
        layer, expert = key
        return self.rows[layer][expert]
