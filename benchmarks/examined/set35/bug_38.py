"""Low-VRAM linear layers: weights stream in per call, patches apply on the fly."""
from typing import Callable, List, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

NUM_STREAMS = 2
_streams: List[torch.cuda.Stream] = []
_counter = 0


def next_offload_stream() -> torch.cuda.Stream:
    global _counter
    if not _streams:
        _streams.extend(torch.cuda.Stream() for _ in range(NUM_STREAMS))
    stream = _streams[_counter % NUM_STREAMS]
    _counter += 1
    stream.wait_stream(torch.cuda.current_stream())
    return stream


def transfer(t: torch.Tensor, device: torch.device, stream: torch.cuda.Stream) -> torch.Tensor:
    with torch.cuda.stream(stream):
        return t.to(device, non_blocking=True)


class LowRankPatch:
    def __init__(self, up: torch.Tensor, down: torch.Tensor, strength: float):
        self.up, self.down, self.strength = up, down, strength

    def __call__(self, weight: torch.Tensor) -> torch.Tensor:
        delta = self.up.to(weight.device) @ self.down.to(weight.device)
        return weight + self.strength * delta.to(weight.dtype)


Patch = Callable[[torch.Tensor], torch.Tensor]


class StreamedLinear(nn.Module):
    def __init__(self, in_features: int, out_features: int):
        super().__init__()
        bound = in_features ** -0.5
        self.weight = torch.empty(out_features, in_features, dtype=torch.half).uniform_(-bound, bound).pin_memory()
        self.bias = torch.zeros(out_features, dtype=torch.half).pin_memory()
        self.weight_patches: List[Patch] = []
        self.bias_patches: List[Patch] = []

    def cast_bias_weight(self, x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor, torch.cuda.Stream]:
        stream = next_offload_stream()
        weight = transfer(self.weight, x.device, stream)
        bias = transfer(self.bias, x.device, stream)
        for patch in self.weight_patches:
            weight = patch(weight)
        for patch in self.bias_patches:
            bias = patch(bias)
        torch.cuda.current_stream().wait_stream(stream)
        return weight, bias, stream

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, bias, stream = self.cast_bias_weight(x)
        out = F.linear(x, weight, bias)
        weight.record_stream(torch.cuda.current_stream())
        bias.record_stream(torch.cuda.current_stream())
        return out


class Block(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.norm = nn.LayerNorm(width, elementwise_affine=False)
        self.up = StreamedLinear(width, 4 * width)
        self.down = StreamedLinear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


def attach_lora(model: nn.Module, rank: int = 16, strength: float = 0.7, seed: int = 0) -> int:
    g = torch.Generator(device="cuda").manual_seed(seed)
    count = 0
    for m in model.modules():
        if isinstance(m, StreamedLinear):
            out_f, in_f = m.weight.shape
            up = torch.randn(out_f, rank, generator=g, device="cuda", dtype=torch.half) * 0.01
            down = torch.randn(rank, in_f, generator=g, device="cuda", dtype=torch.half) * 0.01
            m.weight_patches.append(LowRankPatch(up, down, strength))
            count += 1
    return count


@torch.inference_mode()
def denoise(model: nn.Module, latent: torch.Tensor, steps: int) -> torch.Tensor:
    for i in range(steps):
        latent = latent - model(latent) / (i + 1)
    return latent


def main(lora: Optional[bool] = True) -> None:
    model = nn.Sequential(*[Block(3072) for _ in range(8)])
    if lora:
        attach_lora(model)
    latent = torch.randn(1, 1024, 3072, device="cuda", dtype=torch.half)
    print(denoise(model, latent, 4).float().std().item())


if __name__ == "__main__":
    main()
