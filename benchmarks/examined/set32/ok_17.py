"""Activations go to host memory during the forward pass and come back when autograd asks for them."""
import torch
from torch.autograd.graph import saved_tensors_hooks


class HostActivation:
    __slots__ = ("host", "device")

    def __init__(self, host, device):
        self.host = host
        self.device = device


class OffloadActivations(saved_tensors_hooks):
    """Context manager around a forward pass; saved tensors of at least `min_bytes` are moved."""

    def __init__(self, min_bytes=1 << 20, device="cuda"):
        self.min_bytes = min_bytes
        self.stream = torch.cuda.Stream(device)
        self.offloaded_bytes = 0
        super().__init__(self._pack, self._unpack)

    def _wants(self, t):
        if not t.is_cuda or isinstance(t, torch.nn.Parameter):
            return False
        if t._base is not None and isinstance(t._base, torch.nn.Parameter):
            return False
        return t.numel() * t.element_size() >= self.min_bytes

    def _pack(self, t):
        if not self._wants(t):
            return t
        host = torch.empty(t.shape, dtype=t.dtype, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream(t.device))
        with torch.cuda.stream(self.stream):
            host.copy_(t, non_blocking=True)
        t.record_stream(self.stream)
        self.offloaded_bytes += t.numel() * t.element_size()
        return HostActivation(host, t.device)

    def _unpack(self, saved):
        if not isinstance(saved, HostActivation):
            return saved
        current = torch.cuda.current_stream(saved.device)
        with torch.cuda.stream(self.stream):
            t = saved.host.to(saved.device, non_blocking=True)
        current.wait_stream(self.stream)
        t.record_stream(current)
        return t


class Block(torch.nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = torch.nn.LayerNorm(dim)
        self.qkv = torch.nn.Linear(dim, 3 * dim)
        self.proj = torch.nn.Linear(dim, dim)
        self.norm2 = torch.nn.LayerNorm(dim)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(dim, 4 * dim), torch.nn.GELU(), torch.nn.Linear(4 * dim, dim)
        )

    def forward(self, x):
        b, s, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, s, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q @ k.transpose(-1, -2)) * (d // self.heads) ** -0.5
        att = scores.softmax(-1) @ v
        x = x + self.proj(att.transpose(1, 2).reshape(b, s, d))
        return x + self.mlp(self.norm2(x))


def train(steps=50, depth=8, dim=1024, batch=8, seq=512):
    model = torch.nn.Sequential(*[Block(dim, 16) for _ in range(depth)]).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    offload = OffloadActivations()
    losses = []
    for _ in range(steps):
        x = torch.randn(batch, seq, dim, device="cuda")
        with offload:
            loss = (model(x) - x.roll(1, 1)).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        losses.append(loss.detach())
    print(torch.stack(losses)[-5:].mean().item(), offload.offloaded_bytes)


if __name__ == "__main__":
    train()
