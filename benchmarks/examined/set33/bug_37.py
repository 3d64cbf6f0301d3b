import math
from typing import Dict

import torch
import torch.nn as nn
from numba import cuda


@cuda.jit
def _quant_dequant(x, scale, lo, hi):
    i = cuda.grid(1)
    if i < x.size:
        q = math.floor(x[i] / scale + 0.5)
        if q < lo:
            q = lo
        if q > hi:
            q = hi
        x[i] = q * scale


def quant_dequant_(x: torch.Tensor, scale: float, bits: int) -> torch.Tensor:
    """In-place fake quantisation of a contiguous tensor."""
    flat = cuda.as_cuda_array(x.view(-1))
    threads = 256
    blocks = (flat.size + threads - 1) // threads
    _quant_dequant[blocks, threads](flat, scale, -(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return x


class QuantWrapper(nn.Module):
    def __init__(self, module: nn.Module, bits: int = 8, limit: float = 6.0):
        super().__init__()
        self.module = module
        self.bits = bits
        self.limit = limit
        self.scale = limit / (2 ** (bits - 1) - 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.clamp(-self.limit, self.limit).contiguous()
        x = quant_dequant_(x, self.scale, self.bits)
        return self.module(x)


def wrap_linears(model: nn.Module, bits: int = 8) -> nn.Module:
    for name, child in list(model.named_children()):
        if isinstance(child, nn.Linear):
            setattr(model, name, QuantWrapper(child, bits))
        else:
            wrap_linears(child, bits)
    return model


class QuantEvaluator:
    """Scores several bit widths at once, each on a stream of its own."""

    def __init__(self, build, bit_widths=(4, 6, 8), device="cuda"):
        self.device = torch.device(device)
        self.models: Dict[int, nn.Module] = {
            bits: wrap_linears(build(), bits).to(self.device).eval() for bits in bit_widths
        }
        self.streams = {bits: torch.cuda.Stream(self.device) for bits in bit_widths}

    @torch.no_grad()
    def score(self, x: torch.Tensor, reference: torch.Tensor) -> Dict[int, float]:
        main = torch.cuda.current_stream(self.device)
        errors = {}
        for bits, model in self.models.items():
            stream = self.streams[bits]
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                errors[bits] = (model(x) - reference).square().mean()
        for bits, stream in self.streams.items():
            main.wait_stream(stream)
            errors[bits].record_stream(main)
        return {bits: float(err) for bits, err in errors.items()}
