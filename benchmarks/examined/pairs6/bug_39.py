"""Saved tensors of the attention blocks are parked in host memory during the forward pass."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class OffloadActivations(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self, min_offload_size=1 << 20):
        self.min_offload_size = min_offload_size
        self.s0 = torch.cuda.current_stream()
        self.s1 = torch.cuda.Stream()
        super().__init__(self.pack, self.unpack)

    def pack(self, t):
        if t.numel() < self.min_offload_size or isinstance(t, nn.Parameter) or not t.is_contiguous():
            return t
        self.s1.wait_stream(self.s0)
        with torch.cuda.stream(self.s1):
            cpu = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
            cpu.copy_(t, non_blocking=True)
        t.record_stream(self.s1)
        return cpu, t.device

    def unpack(self, saved):
        if isinstance(saved, torch.Tensor):
            return saved
        cpu, device = saved
        with torch.cuda.stream(self.s1):
            t = cpu.to(device, non_blocking=True)
        self.s0.wait_stream(self.s1)
        t.record_stream(self.s0)
        return t


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        out = F.scaled_dot_product_attention(q, k, v)
        return x + self.proj(out.transpose(1, 2).reshape(b, n, d))


class Session:
    def __init__(self, depth=12, dim=1536):
        self.model = nn.Sequential(*[Attention(dim, 12) for _ in range(depth)]).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.offload = OffloadActivations()
        self.stream = torch.cuda.Stream()
        self.stream.wait_stream(torch.cuda.current_stream())
        self.dim = dim

    def run(self, steps):
        with torch.cuda.stream(self.stream):
            for _ in range(steps):
                x = torch.randn(4, 1024, self.dim, device="cuda")
                with self.offload:
                    loss = self.model(x).square().mean()
                loss.backward()
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
        self.stream.synchronize()


if __name__ == "__main__":
    Session().run(200)
