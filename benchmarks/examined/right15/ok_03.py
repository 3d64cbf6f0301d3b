"""Moves large saved activations to pinned host memory between forward and backward."""
import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks


class PinnedOffload(saved_tensors_hooks):
    def __init__(self, device, min_numel=1 << 16):
        self.device = torch.device(device)
        self.min_numel = min_numel
        self.stream = torch.cuda.Stream(self.device)
        self.bytes_moved = 0
        super().__init__(self._pack, self._unpack)

    def _wanted(self, t):
        if t.device != self.device or t.numel() < self.min_numel:
            return False
        return not (t.is_leaf and t.requires_grad)

    def _pack(self, t):
        if not self._wanted(t):
            return t
        host = torch.empty(t.size(), dtype=t.dtype, pin_memory=True)
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            host.copy_(t, non_blocking=True)
        t.record_stream(self.stream)
        self.bytes_moved += host.numel() * host.element_size()
        return (host,)

    def _unpack(self, packed):
        if isinstance(packed, torch.Tensor):
            return packed
        host, = packed
        current = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self.stream):
            t = torch.empty(host.size(), dtype=host.dtype, device=self.device)
            t.copy_(host, non_blocking=True)
        current.wait_stream(self.stream)
        t.record_stream(current)
        return t

    def __exit__(self, *exc):
        torch.cuda.current_stream(self.device).wait_stream(self.stream)
        return super().__exit__(*exc)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def train(steps=8, width=512, depth=6):
    device = torch.device("cuda", torch.cuda.current_device())
    model = nn.Sequential(*[Block(width) for _ in range(depth)]).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    offload = PinnedOffload(device)
    losses = []
    for _ in range(steps):
        x = torch.randn(256, width, device=device)
        with offload:
            loss = (model(x) - x).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses, offload.bytes_moved


if __name__ == "__main__":
    print(train())
