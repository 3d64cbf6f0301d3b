"""Layer-by-layer weight quantization: solve on the GPU, pack into int32 words on the CPU."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class QuantResult:
    weight: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor
    g_idx: torch.Tensor

    def to_cpu(self) -> "QuantResult":
        return QuantResult(
            self.weight.to("cpu", non_blocking=True),
            self.scales.to("cpu", non_blocking=True),
            self.zeros.to("cpu", non_blocking=True),
            self.g_idx.to("cpu", non_blocking=True),
        )


class LayerQuantizer:
    def __init__(self, layer: nn.Linear, bits: int, group_size: int) -> None:
        self.layer = layer
        self.maxq = 2 ** bits - 1
        self.group_size = group_size
        self.hessian = torch.zeros(layer.in_features, layer.in_features, device=layer.weight.device)

    def add_batch(self, x: torch.Tensor) -> None:
        x = x.reshape(-1, x.shape[-1]).float()
        self.hessian.addmm_(x.T, x, alpha=2.0 / x.shape[0])

    def quantize(self) -> QuantResult:
        w = self.layer.weight.data.float().clone()
        damp = 0.01 * torch.diagonal(self.hessian).mean()
        self.hessian.diagonal().add_(damp)
        importance = torch.diagonal(torch.cholesky_inverse(torch.linalg.cholesky_ex(self.hessian)[0]))
        out_features, in_features = w.shape
        grouped = w.view(out_features, -1, self.group_size)
        lo, hi = grouped.amin(dim=-1), grouped.amax(dim=-1)
        scales = (hi - lo).clamp_(min=1e-5) / self.maxq
        zeros = torch.round(-lo / scales)
        for _ in range(20):
            q = torch.clamp(torch.round(grouped / scales.unsqueeze(-1)) + zeros.unsqueeze(-1), 0, self.maxq)
            err = (grouped - (q - zeros.unsqueeze(-1)) * scales.unsqueeze(-1)) / importance.view(1, -1, self.group_size)
            scales = scales * (1.0 + 1e-3 * err.mean(dim=-1).tanh())
        dequant = ((q - zeros.unsqueeze(-1)) * scales.unsqueeze(-1)).view_as(w)
        g_idx = torch.arange(in_features, dtype=torch.int32, device=w.device) // self.group_size
        return QuantResult(dequant, scales, zeros, g_idx)


class PackedLinear:
    def __init__(self, bits: int) -> None:
        self.bits = bits

    def pack(self, result: QuantResult) -> "PackedLinear":
        scales = result.scales.numpy()
        zeros = result.zeros.numpy()
        columns = result.g_idx.numpy()
        weight = result.weight.numpy()
        intweight = np.rint(weight / scales[:, columns] + zeros[:, columns]).astype(np.uint32).T
        per_word = 32 // self.bits
        rows = intweight.shape[0] // per_word
        qweight = np.zeros((rows, intweight.shape[1]), dtype=np.uint32)
        for j in range(per_word):
            qweight |= intweight[j::per_word] << np.uint32(self.bits * j)
        self.qweight = torch.from_numpy(qweight.astype(np.int32))
        self.scales = torch.from_numpy(scales.T.copy()).half()
        return self


@torch.no_grad()
def quantize_model(layers: list[nn.Linear], samples: torch.Tensor, bits: int = 4) -> list[PackedLinear]:
    packed = []
    x = samples
    for layer in layers:
        quantizer = LayerQuantizer(layer, bits, group_size=128)
        for chunk in x.split(256):
            quantizer.add_batch(chunk)
        result = quantizer.quantize()
        layer.weight.data.copy_(result.weight)
        x = torch.relu(layer(x))
        packed.append(PackedLinear(bits).pack(result.to_cpu()))
    return packed


if __name__ == "__main__":
    net = [nn.Linear(1024, 1024, bias=False).cuda() for _ in range(8)]
    out = quantize_model(net, torch.randn(2048, 1024, device="cuda"))
    print(len(out), out[0].qweight.shape)
