"""Quantized linear layers whose weights are laid out on first use."""
import threading
from typing import List, Optional

import torch
import torch.nn as nn


class PackedWeight:
    def __init__(self, data: torch.Tensor, scales: torch.Tensor):
        self.data = data
        self.scales = scales


class PackedLinear(nn.Module):
    """Stores int4 pairs on load and converts them to the kernel layout lazily."""

    def __init__(self, in_features: int, out_features: int, group: int = 128):
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.group = group
        raw = torch.randint(0, 255, (out_features, in_features // 2), dtype=torch.uint8)
        self.register_buffer("raw", raw)
        self.register_buffer("scales", torch.rand(out_features, in_features // group) * 0.01)
        self._packed: Optional[PackedWeight] = None
        self._lock = threading.Lock()

    def _convert(self) -> PackedWeight:
        low = (self.raw & 0x0F).to(torch.int8) - 8
        high = (self.raw >> 4).to(torch.int8) - 8
        q = torch.stack([low, high], dim=-1).view(self.out_features, self.in_features)
        tiles = q.view(self.out_features // 64, 64, self.in_features // 64, 64)
        tiled = tiles.permute(0, 2, 1, 3).contiguous()
        scales = self.scales.t().contiguous().half()
        return PackedWeight(tiled, scales)

    def prepared(self) -> PackedWeight:
        with self._lock:
            if self._packed is None:
                self._packed = self._convert()
            return self._packed

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        packed = self.prepared()
        w = packed.data.permute(0, 2, 1, 3).reshape(self.out_features, self.in_features).half()
        s = packed.scales.t().repeat_interleave(self.group, dim=1)
        return x @ (w * s).t()


class Engine:
    """Prefill and decode batches run on separate streams."""

    def __init__(self, hidden: int, layers: int):
        self.layers = nn.ModuleList(PackedLinear(hidden, hidden) for _ in range(layers)).cuda()
        self.hidden = hidden
        self.prefill_stream = torch.cuda.Stream()
        self.decode_stream = torch.cuda.Stream()
        torch.cuda.synchronize()

    def _run(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.nn.functional.silu(layer(x)) + x
        return x

    @torch.inference_mode()
    def prefill(self, tokens: int) -> torch.Tensor:
        with torch.cuda.stream(self.prefill_stream):
            x = torch.randn(tokens, self.hidden, device="cuda", dtype=torch.float16)
            return self._run(x)

    @torch.inference_mode()
    def decode(self, batch: int) -> torch.Tensor:
        with torch.cuda.stream(self.decode_stream):
            x = torch.randn(batch, self.hidden, device="cuda", dtype=torch.float16)
            return self._run(x)


def main() -> None:
    engine = Engine(hidden=4096, layers=16)
    prefilled: List[torch.Tensor] = []
    decoded: List[torch.Tensor] = []
    for _ in range(4):
        prefilled.append(engine.prefill(4096))
        decoded.append(engine.decode(32))
    torch.cuda.synchronize()
    print(prefilled[0].float().norm().item(), decoded[0].float().norm().item())


if __name__ == "__main__":
    main()
