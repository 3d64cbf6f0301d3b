import os

import torch
from torch import nn

PIPELINE_DEPTH = int(os.environ.get("OFFLOAD_DEPTH", "4"))


class DeviceState:
    """Forward ring of one device: slot_ready = upload done, slot_free = compute done."""

    def __init__(self, device: torch.device, depth: int):
        self.device = device
        self.depth = depth
        self.transfer_stream = torch.cuda.Stream(device)
        self.buffers: list[tuple[torch.Tensor, torch.Tensor] | None] = [None] * depth
        self.slot_ready = [torch.cuda.Event() for _ in range(depth)]
        self.slot_free = [torch.cuda.Event() for _ in range(depth)]
        self.clock = 0


_DEVICE_STATE: dict[torch.device, DeviceState] = {}


def get_device_state(device: torch.device) -> DeviceState:
    if device not in _DEVICE_STATE:
        _DEVICE_STATE[device] = DeviceState(device, max(2, PIPELINE_DEPTH))
    return _DEVICE_STATE[device]


def stage_forward_weight(state: DeviceState, qweight_cpu, scale_cpu):
    idx = state.clock
    state.clock = (idx + 1) % state.depth
    ts = state.transfer_stream
    with torch.cuda.stream(ts):
        ts.wait_event(state.slot_free[idx])
        state.buffers[idx] = (
            qweight_cpu.to(state.device, non_blocking=True),
            scale_cpu.to(state.device, non_blocking=True),
        )
        state.slot_ready[idx].record(ts)
    torch.cuda.current_stream().wait_event(state.slot_ready[idx])
    return idx, *state.buffers[idx]


def release_forward_slot(state: DeviceState, idx: int):
    state.slot_free[idx].record()


class OffloadedQuantLinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, qweight_cpu, scale_cpu, device):
        state = get_device_state(device)
        idx, qweight, scale = stage_forward_weight(state, qweight_cpu, scale_cpu)
        weight = qweight.to(x.dtype) * scale
        out = x @ weight.t()
        release_forward_slot(state, idx)
        ctx.save_for_backward(qweight, scale)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        qweight, scale = ctx.saved_tensors
        weight = qweight.to(grad_out.dtype) * scale
        return grad_out @ weight, None, None, None


class OffloadedQuantLinear(nn.Module):
    def __init__(self, linear: nn.Linear, device: torch.device):
        super().__init__()
        scale = linear.weight.detach().abs().amax(dim=1, keepdim=True) / 127
        q = torch.round(linear.weight.detach() / scale).to(torch.int8)
        self.qweight = q.cpu().pin_memory()
        self.scale = scale.to("cpu", torch.bfloat16).pin_memory()
        self.device = device

    def forward(self, x):
        return OffloadedQuantLinearFn.apply(x, self.qweight, self.scale, self.device)


class LoRABlock(nn.Module):
    def __init__(self, dim: int, device: torch.device, rank: int = 16):
        super().__init__()
        self.base = OffloadedQuantLinear(nn.Linear(dim, dim, bias=False), device)
        self.down = nn.Linear(dim, rank, bias=False, device=device, dtype=torch.bfloat16)
        self.up = nn.Linear(rank, dim, bias=False, device=device, dtype=torch.bfloat16)

    def forward(self, x):
        return x + torch.nn.functional.gelu(self.base(x) + self.up(self.down(x)))


def train(steps: int = 100, dim: int = 3072, depth: int = 32):
    device = torch.device("cuda")
    model = nn.Sequential(*(LoRABlock(dim, device) for _ in range(depth)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    x = torch.randn(2, 1024, dim, device=device, dtype=torch.bfloat16)
    target = torch.randn_like(x)
    for _ in range(steps):
        loss = torch.nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    return loss.item()


if __name__ == "__main__":
    print(train())
