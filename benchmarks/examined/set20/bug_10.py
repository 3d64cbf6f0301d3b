"""Save activations on the host, overlapping transfers with compute."""
from collections import deque

import torch
import torch.nn as nn


class PinnedPool:
    """Keeps host tensors of finished steps for the next step."""

    def __init__(self):
        self.free = {}
        self.used = []

    def get(self, t):
        key = (t.shape, t.dtype)
        bucket = self.free.setdefault(key, deque())
        host = bucket.popleft() if bucket else torch.empty(
            t.shape, dtype=t.dtype, pin_memory=True
        )
        self.used.append((key, host))
        return host

    def recycle(self):
        for key, host in self.used:
            self.free[key].append(host)
        self.used = []


class overlapped_save_on_cpu(torch.autograd.graph.saved_tensors_hooks):
    copy_stream = None
    pool = PinnedPool()

    def __init__(self, min_numel=1 << 18):
        cls = overlapped_save_on_cpu
        if cls.copy_stream is None:
            cls.copy_stream = torch.cuda.Stream()
        self.min_numel = min_numel

        def pack_to_cpu(tensor):
            if not tensor.is_cuda or tensor.numel() < self.min_numel:
                return None, tensor
            cls.copy_stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(cls.copy_stream):
                host = cls.pool.get(tensor)
                host.copy_(tensor, non_blocking=True)
            tensor.record_stream(cls.copy_stream)
            return tensor.device, host

        def unpack_from_cpu(packed):
            device, host = packed
            if device is None:
                return host
            with torch.cuda.stream(cls.copy_stream):
                tensor = host.to(device, non_blocking=True)
            torch.cuda.current_stream().wait_stream(cls.copy_stream)
            return tensor

        super().__init__(pack_to_cpu, unpack_from_cpu)


class FeedForward(nn.Module):
    def __init__(self, dim, mult=4):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.w1 = nn.Linear(dim, mult * dim)
        self.w2 = nn.Linear(mult * dim, dim)

    def forward(self, x):
        return x + self.w2(torch.nn.functional.silu(self.w1(self.norm(x))))


class Model(nn.Module):
    def __init__(self, dim, depth):
        super().__init__()
        self.layers = nn.ModuleList(FeedForward(dim) for _ in range(depth))
        self.head = nn.Linear(dim, dim)

    def forward(self, x):
        with overlapped_save_on_cpu():
            for layer in self.layers:
                x = layer(x)
        return self.head(x)


def train(data, dim=2048, depth=24, lr=3e-4):
    model = Model(dim, depth).cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for x, y in data:
        x, y = x.cuda(), y.cuda()
        loss = nn.functional.mse_loss(model(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        torch.cuda.synchronize()
        overlapped_save_on_cpu.pool.recycle()
        losses.append(loss.item())
    return losses
