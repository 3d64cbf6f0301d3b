"""Host-resident transformer blocks streamed through two device slots."""
import argparse
import math
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class SwapConfig:
    dim: int = 2048
    depth: int = 20
    slots: int = 2
    dtype: torch.dtype = torch.float16


class HostBlock:
    def __init__(self, cfg: SwapConfig, seed: int):
        g = torch.Generator().manual_seed(seed)
        self.shapes: Dict[str, Tuple[int, ...]] = {
            "up": (4 * cfg.dim, cfg.dim),
            "down": (cfg.dim, 4 * cfg.dim),
            "scale": (cfg.dim,),
        }
        n = sum(math.prod(s) for s in self.shapes.values())
        self.flat = (torch.randn(n, generator=g) * 0.02).to(cfg.dtype).pin_memory()

    @property
    def numel(self) -> int:
        return self.flat.numel()


class Slot:
    """Device buffer plus the two events that govern its life."""

    def __init__(self, numel: int, dtype: torch.dtype, device: torch.device):
        self.buf = torch.empty(numel, dtype=dtype, device=device)
        self.filled = torch.cuda.Event()
        self.drained = torch.cuda.Event()
        self.holds: Optional[int] = None

    def view(self, shapes: Dict[str, Tuple[int, ...]]) -> Dict[str, torch.Tensor]:
        out, off = {}, 0
        for k, s in shapes.items():
            n = math.prod(s)
            out[k] = self.buf[off:off + n].view(s)
            off += n
        return out


class Swapper:
    def __init__(self, blocks: List[HostBlock], cfg: SwapConfig, device: torch.device):
        self.blocks = blocks
        self.slots = [Slot(blocks[0].numel, cfg.dtype, device) for _ in range(cfg.slots)]
        self.stream = torch.cuda.Stream(device)

    def slot_for(self, i: int) -> Slot:
        return self.slots[i % len(self.slots)]

    def prefetch(self, i: int) -> None:
        i %= len(self.blocks)
        s = self.slot_for(i)
        if s.holds == i:
            return
        self.stream.wait_event(s.drained)
        with torch.cuda.stream(self.stream):
            s.buf.copy_(self.blocks[i].flat, non_blocking=True)
            s.filled.record()
        s.holds = i

    def enter(self, i: int) -> Dict[str, torch.Tensor]:
        self.prefetch(i)
        s = self.slot_for(i)
        torch.cuda.current_stream().wait_event(s.filled)
        return s.view(self.blocks[i].shapes)

    def leave(self, i: int) -> None:
        s = self.slot_for(i)
        s.drained.record()
        self.prefetch(i + len(self.slots))


class SwappedModel(nn.Module):
    def __init__(self, cfg: SwapConfig, device: torch.device):
        super().__init__()
        assert cfg.depth % cfg.slots == 0
        self.cfg = cfg
        self.blocks = [HostBlock(cfg, i) for i in range(cfg.depth)]
        self.swapper = Swapper(self.blocks, cfg, device)

    def _apply_block(self, x: torch.Tensor, w: Dict[str, torch.Tensor]) -> torch.Tensor:
        h = F.rms_norm(x, (self.cfg.dim,)) * w["scale"]
        return x + F.linear(F.gelu(F.linear(h, w["up"])), w["down"])

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(self.cfg.depth):
            x = self._apply_block(x, self.swapper.enter(i))
            self.swapper.leave(i)
        return x


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--batches", type=int, default=6)
    ap.add_argument("--depth", type=int, default=20)
    args = ap.parse_args()
    dev = torch.device("cuda")
    cfg = SwapConfig(depth=args.depth)
    model = SwappedModel(cfg, dev)
    acc = torch.zeros((), device=dev)
    for _ in range(args.batches):
        acc += model(torch.randn(128, cfg.dim, device=dev, dtype=cfg.dtype)).float().abs().mean()
    print(acc.item() / args.batches)


if __name__ == "__main__":
    main()
