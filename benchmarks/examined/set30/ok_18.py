"""Saved activations go to page-locked memory and come back through one transfer stream."""
import torch
from torch import nn


class Parked:
    __slots__ = ("host", "device")

    def __init__(self, host, device):
        self.host = host
        self.device = device


class OffloadSaved(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self, stream, min_numel=1 << 14):
        self.stream = stream
        self.min_numel = min_numel
        super().__init__(self._pack, self._unpack)

    def _pack(self, tensor):
        if not tensor.is_cuda or isinstance(tensor, nn.Parameter):
            return tensor
        if tensor.numel() < self.min_numel or not tensor.is_contiguous():
            return tensor
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        source = tensor.detach()
        self.stream.wait_stream(torch.cuda.current_stream(tensor.device))
        with torch.cuda.stream(self.stream):
            host.copy_(source, non_blocking=True)
        source.record_stream(self.stream)
        return Parked(host, tensor.device)

    def _unpack(self, saved):
        if not isinstance(saved, Parked):
            return saved
        compute = torch.cuda.current_stream(saved.device)
        back = torch.empty(saved.host.shape, dtype=saved.host.dtype, device=saved.device)
        self.stream.wait_stream(compute)
        with torch.cuda.stream(self.stream):
            back.copy_(saved.host, non_blocking=True)
        compute.wait_stream(self.stream)
        return back


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class OffloadedStack(nn.Module):
    def __init__(self, width, depth, device):
        super().__init__()
        self.blocks = nn.ModuleList(FeedForward(width) for _ in range(depth))
        self.to(device)
        self.transfer = torch.cuda.Stream(device)

    def forward(self, x):
        with OffloadSaved(self.transfer):
            for block in self.blocks:
                x = block(x)
        torch.cuda.current_stream(x.device).wait_stream(self.transfer)
        return x


def train(steps=20, width=2048, depth=16, tokens=4096, device="cuda"):
    model = OffloadedStack(width, depth, device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    history = []
    for _ in range(steps):
        x = torch.randn(tokens, width, device=device)
        loss = (model(x) - x.flip(1)).square().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        history.append(loss.detach())
    return torch.stack(history).tolist()


if __name__ == "__main__":
    print(train()[-1])
