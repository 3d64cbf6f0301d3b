"""A feed-forward block that keeps its input in host memory for backward."""
import torch
import torch.nn as nn
import torch.nn.functional as F

_offload_streams = {}


def offload_stream(device):
    key = device.index
    if key not in _offload_streams:
        _offload_streams[key] = torch.cuda.Stream(device)
    return _offload_streams[key]


class OffloadedMLP(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w1, w2):
        stream = torch.cuda.current_stream(x.device)
        side = offload_stream(x.device)
        host = torch.empty(x.shape, dtype=x.dtype, pin_memory=True)
        side.wait_stream(stream)
        with torch.cuda.stream(side):
            host.copy_(x, non_blocking=True)
            stored = side.record_event()
        try:
            y = F.linear(F.gelu(F.linear(x, w1)), w2)
        finally:
            stream.wait_event(stored)
        ctx.host = host
        ctx.device = x.device
        ctx.save_for_backward(w1, w2)
        return y

    @staticmethod
    def backward(ctx, grad_out):
        w1, w2 = ctx.saved_tensors
        stream = torch.cuda.current_stream(ctx.device)
        side = offload_stream(ctx.device)
        with torch.cuda.stream(side):
            x = ctx.host.to(ctx.device, non_blocking=True)
        stream.wait_stream(side)
        x.record_stream(stream)
        pre = F.linear(x, w1)
        with torch.enable_grad():
            leaf = pre.detach().requires_grad_()
            act = F.gelu(leaf)
        flat_out = grad_out.reshape(-1, grad_out.shape[-1])
        grad_w2 = flat_out.t() @ act.detach().reshape(-1, act.shape[-1])
        grad_act = grad_out @ w2
        (grad_pre,) = torch.autograd.grad(act, leaf, grad_act)
        flat_pre = grad_pre.reshape(-1, grad_pre.shape[-1])
        grad_w1 = flat_pre.t() @ x.reshape(-1, x.shape[-1])
        grad_x = grad_pre @ w1
        return grad_x, grad_w1, grad_w2


class Block(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.w1 = nn.Parameter(torch.randn(hidden, width) * 0.02)
        self.w2 = nn.Parameter(torch.randn(width, hidden) * 0.02)

    def forward(self, x):
        return x + OffloadedMLP.apply(self.norm(x), self.w1, self.w2)


def build(depth=8, width=1024, hidden=4096, device="cuda"):
    return nn.Sequential(*[Block(width, hidden) for _ in range(depth)]).to(device)
