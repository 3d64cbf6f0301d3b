from typing import List, Optional, Tuple

import torch
import torch.nn as nn


def quantize_rows(x: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    amax = x.abs().amax(dim=-1, keepdim=True).clamp(min=1e-6)
    scale = amax / 448.0
    return (x / scale).to(torch.float8_e4m3fn), scale.float()


class DenseGemm:
    """Quantized matmul with an optional launch stream."""

    def __init__(self, weight: torch.Tensor):
        self.weight_q, self.weight_scale = quantize_rows(weight)
        self.n = weight.shape[0]

    def __call__(self, a: torch.Tensor, out: torch.Tensor, stream: Optional[torch.cuda.Stream] = None) -> torch.Tensor:
        a_q, a_scale = quantize_rows(a)
        current = torch.cuda.current_stream(a.device)
        launch_stream = stream if stream is not None else current
        launch_stream.wait_stream(current)
        with torch.cuda.stream(launch_stream):
            torch._scaled_mm(
                a_q,
                self.weight_q.t(),
                scale_a=a_scale,
                scale_b=self.weight_scale.t(),
                out_dtype=out.dtype,
                out=out,
            )
        return out


class ParallelProjections(nn.Module):
    """Several independent projections of one input, launched beside the main stream."""

    def __init__(self, hidden: int, sizes: List[int]):
        super().__init__()
        self.gemms = [DenseGemm(torch.randn(n, hidden, device="cuda", dtype=torch.bfloat16)) for n in sizes]
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in sizes]).cuda().bfloat16()
        self.stream = torch.cuda.Stream()

    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> List[torch.Tensor]:
        outputs = [torch.empty(x.shape[0], g.n, device=x.device, dtype=x.dtype) for g in self.gemms]
        for gemm, norm, out in zip(self.gemms, self.norms, outputs):
            gemm(norm(x), out, stream=self.stream)
        torch.cuda.current_stream().wait_stream(self.stream)
        return outputs


def main(tokens: int = 2048, hidden: int = 4096, layers: int = 24) -> float:
    stack = [ParallelProjections(hidden, [hidden, hidden, hidden]) for _ in range(layers)]
    x = torch.randn(tokens, hidden, device="cuda", dtype=torch.bfloat16)
    for layer in stack:
        q, k, v = layer(x)
        x = x + torch.sigmoid(q) * k + v * 1e-3
    return x.float().mean().item()
