import torch
import torch.nn as nn
import torch.nn.functional as F


class Parked:
    __slots__ = ("host", "shape", "dtype")

    def __init__(self, host, shape, dtype):
        self.host = host
        self.shape = shape
        self.dtype = dtype


class ActivationParking:
    def __init__(self, min_elements=1 << 18):
        self.min_elements = min_elements
        self.stream = torch.cuda.Stream()
        self.parked_bytes = 0

    def pack(self, t):
        if not t.is_cuda or t.is_leaf and t.requires_grad or t.numel() < self.min_elements:
            return t
        t = t.detach()
        src = t.contiguous()
        host = torch.empty(src.shape, dtype=src.dtype, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            host.copy_(src, non_blocking=True)
        src.record_stream(self.stream)
        self.parked_bytes += host.numel() * host.element_size()
        return Parked(host, src.shape, src.dtype)

    def unpack(self, item):
        if not isinstance(item, Parked):
            return item
        here = torch.cuda.current_stream()
        with torch.cuda.stream(self.stream):
            back = torch.empty(item.shape, dtype=item.dtype, device="cuda")
            back.copy_(item.host, non_blocking=True)
        here.wait_stream(self.stream)
        back.record_stream(here)
        return back

    def hooks(self):
        return torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack)


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.n1 = nn.LayerNorm(dim)
        self.n2 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        w = (q @ k.transpose(-1, -2)) / (d // self.heads) ** 0.5
        a = (w.softmax(-1) @ v).transpose(1, 2).reshape(b, t, d)
        x = x + self.proj(a)
        return x + self.down(F.gelu(self.up(self.n2(x))))


def main():
    torch.manual_seed(0)
    dim, depth = 512, 6
    blocks = nn.ModuleList(Block(dim, 8) for _ in range(depth)).cuda()
    head = nn.Linear(dim, 64).cuda()
    params = list(blocks.parameters()) + list(head.parameters())
    opt = torch.optim.AdamW(params, lr=2e-4)
    parking = ActivationParking()

    for step in range(60):
        x = torch.randn(8, 256, dim, device="cuda")
        y = torch.randint(0, 64, (8, 256), device="cuda")
        with parking.hooks():
            h = x
            for block in blocks:
                h = block(h)
            loss = F.cross_entropy(head(h).flatten(0, 1), y.flatten())
        opt.zero_grad()
        loss.backward()
        torch.cuda.current_stream().wait_stream(parking.stream)
        opt.step()
        if step % 10 == 0:
            print(step, loss.item(), parking.parked_bytes >> 20)


if __name__ == "__main__":
    main()
