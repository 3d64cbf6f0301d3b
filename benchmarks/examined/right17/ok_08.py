"""Gated projection whose two matrix products run concurrently."""
from typing import Dict

import torch
from torch import nn

_SIDE: Dict[torch.device, torch.cuda.Stream] = {}


def side_stream(device: torch.device) -> torch.cuda.Stream:
    if device not in _SIDE:
        _SIDE[device] = torch.cuda.Stream(device=device)
    return _SIDE[device]


class _GatedProjection(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w_gate, w_value):
        current = torch.cuda.current_stream(x.device)
        side = side_stream(x.device)
        side.wait_stream(current)
        try:
            with torch.cuda.stream(side):
                gate = x @ w_gate
            value = x @ w_value
        finally:
            current.wait_stream(side)
        gate.record_stream(current)
        act = torch.sigmoid(gate)
        ctx.save_for_backward(x, w_gate, w_value, act, value)
        return act * value

    @staticmethod
    def backward(ctx, grad):
        x, w_gate, w_value, act, value = ctx.saved_tensors
        current = torch.cuda.current_stream(grad.device)
        side = side_stream(grad.device)
        grad = grad.contiguous()
        d_value = grad * act
        d_gate = grad * value * act * (1 - act)
        side.wait_stream(current)
        try:
            with torch.cuda.stream(side):
                gx_gate = d_gate @ w_gate.t()
                gw_gate = x.t() @ d_gate
            gx = d_value @ w_value.t()
            gw_value = x.t() @ d_value
        finally:
            current.wait_stream(side)
        gx_gate.record_stream(current)
        gw_gate.record_stream(current)
        gx.add_(gx_gate)
        return gx, gw_gate, gw_value


class GatedProjection(nn.Module):
    def __init__(self, width: int, out: int):
        super().__init__()
        self.w_gate = nn.Parameter(torch.randn(width, out) * width**-0.5)
        self.w_value = nn.Parameter(torch.randn(width, out) * width**-0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(-1, x.shape[-1])
        out = _GatedProjection.apply(flat, self.w_gate, self.w_value)
        return out.view(*x.shape[:-1], -1)


def fit(layer: GatedProjection, batches, lr: float = 1e-3) -> float:
    optimizer = torch.optim.AdamW(layer.parameters(), lr=lr)
    last = 0.0
    for x, y in batches:
        optimizer.zero_grad(set_to_none=True)
        loss = (layer(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        last = loss.item()
    return last
