"""Layer offloading for adapter training: frozen int8 base weights live in pinned host memory."""
import torch
import torch.nn as nn
import torch.nn.functional as F

_DEVICE_STATE = {}
PIPELINE_DEPTH = 4


def _get_device_state(device):
    if device not in _DEVICE_STATE:
        d = max(2, PIPELINE_DEPTH)
        _DEVICE_STATE[device] = {
            "depth": d,
            "transfer_stream": torch.cuda.Stream(device=device),
            "slot_ready": [torch.cuda.Event() for _ in range(d)],
            "slot_free": [torch.cuda.Event() for _ in range(d)],
            "clk": 0,
        }
    return _DEVICE_STATE[device]


def quantize_rowwise(weight):
    """Row-wise symmetric int8 quantization; both parts are pinned."""
    scale = weight.abs().amax(dim=1, keepdim=True).clamp_(min=1e-8) / 127.0
    q = torch.round(weight / scale).to(torch.int8)
    return q.pin_memory(), scale.pin_memory()


def _stage_weight(state, q_cpu, scale_cpu, device):
    """Bring a quantized weight to the device; returns (slot, q, scale)."""
    idx = state["clk"]
    state["clk"] = (idx + 1) % state["depth"]
    ts = state["transfer_stream"]
    with torch.cuda.stream(ts):
        ts.wait_event(state["slot_free"][idx])
        q = q_cpu.to(device, non_blocking=True)
        scale = scale_cpu.to(device, non_blocking=True)
        state["slot_ready"][idx].record()
    torch.cuda.current_stream().wait_event(state["slot_ready"][idx])
    return idx, q, scale


class _BouncingQuantLinearFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, q_cpu, scale_cpu, device):
        state = _get_device_state(device)
        idx, q, scale = _stage_weight(state, q_cpu, scale_cpu, device)
        w = q.to(x.dtype) * scale.to(x.dtype)
        out = F.linear(x, w)
        state["slot_free"][idx].record()
        ctx.save_for_backward(q, scale)
        return out

    @staticmethod
    def backward(ctx, grad_out):
        q, scale = ctx.saved_tensors
        w = q.to(grad_out.dtype) * scale.to(grad_out.dtype)
        return grad_out @ w, None, None, None


class OffloadedLoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, rank, device):
        super().__init__()
        self.q_cpu, self.scale_cpu = quantize_rowwise(base.weight.detach())
        self.device = device
        self.down = nn.Linear(base.in_features, rank, bias=False, device=device)
        self.up = nn.Linear(rank, base.out_features, bias=False, device=device)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        base = _BouncingQuantLinearFn.apply(x, self.q_cpu, self.scale_cpu, self.device)
        return base + self.up(self.down(x))


def build_model(width, n_layers, rank, device):
    layers = []
    for _ in range(n_layers):
        layers += [OffloadedLoRALinear(nn.Linear(width, width), rank, device), nn.GELU()]
    return nn.Sequential(*layers)


def train(loader, width=4096, n_layers=24, rank=16, epochs=1):
    device = torch.device("cuda", 0)
    model = build_model(width, n_layers, rank, device)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=1e-4, foreach=True)
    for _ in range(epochs):
        for latents, target in loader:
            latents = latents.to(device, non_blocking=True)
            target = target.to(device, non_blocking=True)
            loss = F.mse_loss(model(latents), target)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize(device)
    return {n: p.detach().cpu() for n, p in model.named_parameters()}
