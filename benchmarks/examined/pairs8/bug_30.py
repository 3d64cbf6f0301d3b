import torch
import torch.nn as nn


class BlockSwapper:
    """Keeps a window of transformer blocks on the device."""

    def __init__(self, blocks, device="cuda"):
        self.blocks = list(blocks)
        self.device = device
        self.transfer = torch.cuda.Stream()
        self.masters = [[p.data.pin_memory() for p in b.parameters()] for b in self.blocks]
        self.onloaded = {}

    def load(self, i):
        if i in self.onloaded or i >= len(self.blocks):
            return
        main = torch.cuda.current_stream()
        with torch.cuda.stream(self.transfer):
            fresh = [m.to(self.device, non_blocking=True) for m in self.masters[i]]
        for p, t in zip(self.blocks[i].parameters(), fresh):
            t.record_stream(main)
            p.data = t
        self.onloaded[i] = True

    def unload(self, i):
        for p, m in zip(self.blocks[i].parameters(), self.masters[i]):
            p.data = m
        del self.onloaded[i]

    def run(self, x):
        self.load(0)
        for i, block in enumerate(self.blocks):
            self.load(i + 1)
            x = block(x)
            self.unload(i)
        return x


class Layer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


@torch.inference_mode()
def main():
    swapper = BlockSwapper(Layer(1024) for _ in range(24))
    latents = torch.randn(1, 1024, 1024, device="cuda")
    for step in range(8):
        latents = latents - 0.1 * swapper.run(latents)
    print(latents.abs().max().item())


if __name__ == "__main__":
    main()
