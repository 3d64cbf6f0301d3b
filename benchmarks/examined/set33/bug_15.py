"""Group offloading for a transformer with weight only quantization."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class QuantizedWeight:
    """Integer data with a per group scale, as a pair of plain tensors."""

    qdata: torch.Tensor
    scale: torch.Tensor
    group: int

    @classmethod
    def from_float(cls, weight, group=64):
        rows, cols = weight.shape
        w = weight.reshape(rows, cols // group, group)
        scale = w.abs().amax(-1, keepdim=True).clamp_min(1e-8) / 127.0
        q = torch.round(w / scale).to(torch.int8)
        return cls(q.contiguous().pin_memory(), scale.half().contiguous().pin_memory(), group)

    def to(self, device, non_blocking=False):
        return QuantizedWeight(
            self.qdata.to(device, non_blocking=non_blocking),
            self.scale.to(device, non_blocking=non_blocking),
            self.group,
        )

    def record_stream(self, stream):
        self.qdata.record_stream(stream)

    def dequantize(self):
        w = self.qdata.half() * self.scale
        return w.flatten(1)


class QuantLinear(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.host_weight = QuantizedWeight.from_float(torch.randn(features, features) / features**0.5)
        self.weight = None

    def forward(self, x):
        return x @ self.weight.dequantize().t()


class Block(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.up, self.down = QuantLinear(features), QuantLinear(features)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


class ModuleGroup:
    """Moves the weights of one block; uploads are issued on a stream shared by all groups."""

    def __init__(self, block, stream, device):
        self.linears = [m for m in block.modules() if isinstance(m, QuantLinear)]
        self.stream, self.device = stream, device

    def onload(self):
        compute = torch.cuda.current_stream(self.device)
        with torch.cuda.stream(self.stream):
            for linear in self.linears:
                linear.weight = linear.host_weight.to(self.device, non_blocking=True)
                linear.weight.record_stream(compute)

    def gate(self):
        torch.cuda.current_stream(self.device).wait_stream(self.stream)

    def offload(self):
        for linear in self.linears:
            linear.weight = None


class GroupOffloadedTransformer:
    def __init__(self, depth=24, features=2048, device="cuda:0"):
        self.device = torch.device(device)
        self.stream = torch.cuda.Stream(self.device)
        self.blocks = [Block(features) for _ in range(depth)]
        self.groups = [ModuleGroup(b, self.stream, self.device) for b in self.blocks]

    @torch.inference_mode()
    def __call__(self, x):
        self.groups[0].onload()
        for i, (block, group) in enumerate(zip(self.blocks, self.groups)):
            group.gate()
            if i + 1 < len(self.groups):
                self.groups[i + 1].onload()
            x = block(x)
            group.offload()
        return x
