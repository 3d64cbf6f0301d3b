"""Bouncing linear layers: weights stay in pinned host memory and pass through a device ring."""
import torch
import torch.nn as nn
import torch.nn.functional as F

_DEVICE_STATE = {}
PIPELINE_DEPTH = 4


def _get_device_state(device):
    if device not in _DEVICE_STATE:
        d = max(2, PIPELINE_DEPTH)
        with torch.cuda.device(device):
            _DEVICE_STATE[device] = {
                "depth": d,
                "transfer_stream": torch.cuda.Stream(device=device),
                "w_buffers": [None] * d,
                "fwd_slot_ready": [torch.cuda.Event() for _ in range(d)],
                "fwd_slot_free": [torch.cuda.Event() for _ in range(d)],
                "forward_clk": 0,
                "w_bwd_buffers": [None] * d,
                "bwd_slot_ready": [torch.cuda.Event() for _ in range(d)],
                "bwd_slot_free": [torch.cuda.Event() for _ in range(d)],
                "backward_clk": 0,
            }
    return _DEVICE_STATE[device]


def _stage(state, clk, buffers, ready, free, weight_cpu, device):
    idx = state[clk]
    state[clk] = (idx + 1) % state["depth"]
    ts = state["transfer_stream"]
    with torch.cuda.stream(ts):
        ts.wait_event(state[free][idx])
        state[buffers][idx] = weight_cpu.to(device, non_blocking=True)
        state[ready][idx].record()
    torch.cuda.current_stream().wait_event(state[ready][idx])
    return idx


class _BouncingLinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight_cpu, device):
        state = _get_device_state(device)
        idx = _stage(state, "forward_clk", "w_buffers", "fwd_slot_ready",
                     "fwd_slot_free", weight_cpu, device)
        out = F.linear(x, state["w_buffers"][idx])
        state["fwd_slot_free"][idx].record()
        ctx.weight_cpu = weight_cpu
        ctx.device = device
        return out

    @staticmethod
    def backward(ctx, grad_out):
        state = _get_device_state(ctx.device)
        idx = _stage(state, "backward_clk", "w_bwd_buffers", "bwd_slot_ready",
                     "bwd_slot_free", ctx.weight_cpu, ctx.device)
        grad_in = grad_out @ state["w_bwd_buffers"][idx]
        state["bwd_slot_free"][idx].record()
        return grad_in, None, None


class BouncingLoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, rank, device):
        super().__init__()
        self.weight_cpu = base.weight.detach().to(torch.bfloat16).pin_memory()
        self.device = device
        kw = dict(bias=False, device=device, dtype=torch.bfloat16)
        self.down = nn.Linear(base.in_features, rank, **kw)
        self.up = nn.Linear(rank, base.out_features, **kw)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return _BouncingLinearFn.apply(x, self.weight_cpu, self.device) + self.up(self.down(x))


def train(loader, width=4096, n_layers=24, rank=16):
    device = torch.device("cuda", 0)
    model = nn.Sequential(*[
        BouncingLoRALinear(nn.Linear(width, width), rank, device) for _ in range(n_layers)
    ])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for latents, target in loader:
        latents = latents.to(device, dtype=torch.bfloat16, non_blocking=True)
        target = target.to(device, dtype=torch.bfloat16, non_blocking=True)
        loss = F.mse_loss(model(latents), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize(device)
    return model
