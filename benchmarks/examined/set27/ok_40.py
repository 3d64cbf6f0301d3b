"""Layerwise offload of a diffusion transformer: weights stream through two device slots."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class DiTBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, 4 * dim)
        self.fc2 = nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Slot:
    def __init__(self, numel, dtype, device):
        self.flat = torch.empty(numel, dtype=dtype, device=device)
        self.loaded = torch.cuda.Event()
        self.used = torch.cuda.Event()


class LayerwiseOffloader:
    def __init__(self, blocks, device, dtype=torch.bfloat16, num_slots=2):
        self.blocks = list(blocks)
        self.device = device
        self.layout = []
        offset = 0
        for name, p in self.blocks[0].named_parameters():
            self.layout.append((name, offset, p.shape))
            offset += p.numel()
        self.numel = offset
        self.host = [self._flatten(block, dtype) for block in self.blocks]
        self.copy_stream = torch.cuda.Stream(device)
        self.slots = [Slot(self.numel, dtype, device) for _ in range(num_slots)]
        self.copy_stream.wait_stream(torch.cuda.current_stream(device))

    def _flatten(self, block, dtype):
        flat = torch.empty(self.numel, dtype=dtype, pin_memory=True)
        params = dict(block.named_parameters())
        for name, offset, shape in self.layout:
            p = params[name]
            flat[offset:offset + p.numel()].copy_(p.detach().reshape(-1))
            p.requires_grad_(False)
            p.data = torch.empty(0, dtype=dtype, device=self.device)
        return flat

    def prefetch(self, index):
        slot = self.slots[index % len(self.slots)]
        self.copy_stream.wait_event(slot.used)
        with torch.cuda.stream(self.copy_stream):
            slot.flat.copy_(self.host[index % len(self.host)], non_blocking=True)
            slot.loaded.record(self.copy_stream)

    def attach(self, index):
        slot = self.slots[index % len(self.slots)]
        torch.cuda.current_stream().wait_event(slot.loaded)
        block = self.blocks[index % len(self.blocks)]
        params = dict(block.named_parameters())
        for name, offset, shape in self.layout:
            params[name].data = slot.flat[offset:offset + shape.numel()].view(shape)
        return block

    def release(self, index):
        slot = self.slots[index % len(self.slots)]
        slot.used.record(torch.cuda.current_stream())
        block = self.blocks[index % len(self.blocks)]
        for p in block.parameters():
            p.data = torch.empty(0, dtype=p.dtype, device=self.device)


class OffloadedTransformer(nn.Module):
    def __init__(self, blocks, device):
        super().__init__()
        self.offloader = LayerwiseOffloader(blocks, device)
        self.depth = len(self.offloader.blocks)
        self.position = 0
        for i in range(len(self.offloader.slots)):
            self.offloader.prefetch(i)

    def forward(self, x):
        for _ in range(self.depth):
            index = self.position
            self.position += 1
            x = self.offloader.attach(index)(x)
            self.offloader.release(index)
            self.offloader.prefetch(index + len(self.offloader.slots))
        return x


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    device = torch.device("cuda", 0)
    model = OffloadedTransformer([DiTBlock(2048, 16) for _ in range(20)], device)
    latent = torch.randn(1, 2048, 2048, device=device, dtype=torch.bfloat16)
    for step in range(30):
        velocity = model(latent)
        latent = latent - velocity / 30.0
    print(latent.float().std().item())


if __name__ == "__main__":
    main()
