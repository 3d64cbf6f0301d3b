"""Keeps saved activations in pinned host memory between forward and backward."""
import contextlib

import torch
import torch.nn as nn


class HostCopy:
    __slots__ = ("data", "written", "device")

    def __init__(self, data, written, device):
        self.data, self.written, self.device = data, written, device


class ActivationOffload(torch.autograd.graph.saved_tensors_hooks):
    def __init__(self, min_numel=1 << 16):
        self.min_numel = min_numel
        self.out_stream = torch.cuda.Stream()
        self.in_stream = torch.cuda.Stream()
        super().__init__(self.pack, self.unpack)

    def pack(self, tensor):
        if not tensor.is_cuda or tensor.numel() < self.min_numel or isinstance(tensor, nn.Parameter):
            return tensor
        if not tensor.is_contiguous():
            tensor = tensor.contiguous()
        host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        self.out_stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.out_stream):
            host.copy_(tensor, non_blocking=True)
            written = torch.cuda.Event()
            written.record()
        tensor.record_stream(self.out_stream)
        return HostCopy(host, written, tensor.device)

    def unpack(self, packed):
        if not isinstance(packed, HostCopy):
            return packed
        current = torch.cuda.current_stream()
        with torch.cuda.stream(self.in_stream):
            self.in_stream.wait_event(packed.written)
            tensor = packed.data.to(packed.device, non_blocking=True)
        current.wait_stream(self.in_stream)
        tensor.record_stream(current)
        return tensor


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def train(offload=True, steps=50):
    model = nn.Sequential(*[Block(2048) for _ in range(16)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    ctx = ActivationOffload() if offload else contextlib.nullcontext()
    for step in range(steps):
        x = torch.randn(8, 1024, 2048, device="cuda")
        with ctx:
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.item()


if __name__ == "__main__":
    print(train())
