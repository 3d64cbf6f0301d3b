"""Saved-tensor offload that needs no second stream: copies ride on the compute stream."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd.graph import saved_tensors_hooks


class InlineOffload:
    """Offloads what autograd saves; nothing on the host ever looks at the values."""

    def __init__(self, module, floor=1 << 18):
        self.floor = floor
        self.skip = {p.data_ptr() for p in module.parameters()}
        self.moved = 0

    def hooks(self):
        return saved_tensors_hooks(self.pack, self.unpack)

    def pack(self, t):
        if not t.is_cuda or t.numel() < self.floor or t.data_ptr() in self.skip:
            return t.device, t
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        host.copy_(t, non_blocking=True)
        self.moved += 1
        return t.device, host

    def unpack(self, entry):
        device, t = entry
        if t.device == device:
            return t
        return t.to(device, non_blocking=True)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, n, d))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class Trainer:
    def __init__(self, dim=1024, heads=16, depth=6, stream=None):
        self.stream = stream or torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            self.net = nn.Sequential(*(Block(dim, heads) for _ in range(depth))).cuda()
            self.opt = torch.optim.AdamW(self.net.parameters(), lr=1e-4, foreach=True)
        self.offload = InlineOffload(self.net)

    def step(self, make_batch):
        with torch.cuda.stream(self.stream):
            x, y = make_batch()
            with self.offload.hooks():
                loss = F.mse_loss(self.net(x), y)
            loss.backward()
            self.opt.step()
            self.opt.zero_grad(set_to_none=True)
            return loss.detach()

    def value(self, loss):
        self.stream.synchronize()
        return loss.item()


def random_batch(b=2, n=2048, d=1024):
    x = torch.randn(b, n, d, device="cuda")
    return x, torch.roll(x, 1, dims=1)


def main():
    torch.manual_seed(0)
    trainer = Trainer()
    last = None
    for _ in range(8):
        last = trainer.step(random_batch)
    print("loss", trainer.value(last), "offloaded", trainer.offload.moved)


if __name__ == "__main__":
    main()
