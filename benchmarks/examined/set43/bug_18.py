from typing import Dict, Optional, Tuple

import torch
import torch.nn as nn


class OffloadActivations(torch.autograd.graph.saved_tensors_hooks):
    """Moves saved activations to pinned host memory and brings them back in backward."""

    def __init__(self, min_offload_size: int = 1 << 16):
        self.min_offload_size = min_offload_size
        self.tracker: Dict[int, Tuple[torch.Tensor, bool]] = {}
        self.tensor_id = 0
        self.s0 = torch.cuda.current_stream()
        self.s1 = torch.cuda.Stream()
        super().__init__(self.pack_tensor, self.unpack_tensor)

    def _next_id(self) -> int:
        self.tensor_id += 1
        return self.tensor_id

    def _should_offload(self, t: torch.Tensor) -> bool:
        return (
            t.is_cuda
            and t.numel() >= self.min_offload_size
            and not isinstance(t, nn.Parameter)
            and t.is_contiguous()
        )

    def pack_tensor(self, activation: torch.Tensor) -> int:
        key = self._next_id()
        if not self._should_offload(activation):
            self.tracker[key] = (activation, False)
            return key
        self.s1.wait_stream(self.s0)
        with torch.cuda.stream(self.s1):
            host = torch.empty(activation.shape, dtype=activation.dtype, pin_memory=True)
            host.copy_(activation.detach(), non_blocking=True)
        activation.record_stream(self.s1)
        self.tracker[key] = (host, True)
        return key

    def unpack_tensor(self, key: int) -> torch.Tensor:
        value, offloaded = self.tracker.pop(key)
        if not offloaded:
            return value
        with torch.cuda.stream(self.s1):
            restored = value.to("cuda", non_blocking=True)
        self.s0.wait_stream(self.s1)
        return restored


class MulGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, gate, up):
        ctx.save_for_backward(gate, up)
        return torch.nn.functional.silu(gate) * up

    @staticmethod
    def backward(ctx, grad):
        gate, up = ctx.saved_tensors
        sig = torch.sigmoid(gate)
        act = gate * sig
        d_up = grad * act
        d_gate = grad * up * (sig * (1 + gate * (1 - sig)))
        return d_gate, d_up


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.gate = nn.Linear(width, 4 * width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        h = self.norm(x)
        return x + self.down(MulGelu.apply(self.gate(h), self.up(h)))


def train(model: nn.Module, steps: int, width: int, hooks: Optional[OffloadActivations]):
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(steps):
        x = torch.randn(2048, width, device="cuda")
        with hooks:
            loss = model(x).square().mean()
        loss.backward()
        opt.step()
        opt.zero_grad(set_to_none=True)
        print(step, loss.item())


def main():
    torch.manual_seed(0)
    width = 1024
    model = nn.Sequential(*[Block(width) for _ in range(8)]).cuda()
    train(model, steps=5, width=width, hooks=OffloadActivations())


if __name__ == "__main__":
    main()
