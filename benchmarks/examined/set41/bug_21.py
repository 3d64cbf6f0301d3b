"""Layer-streamed training-free evaluation of a deep MLP whose weights live in host memory.

Weights of each unit are kept in one flat, page-locked tensor.  Units are brought to
the device just in time, with a configurable look-ahead.
"""
import argparse
import math
from dataclasses import dataclass, field
from typing import List, Optional

import torch
import torch.nn.functional as F


@dataclass
class StreamConfig:
    hidden: int = 2048
    ffn: int = 8192
    depth: int = 24
    lookahead: int = 1
    dtype: torch.dtype = torch.float16
    device: torch.device = field(default_factory=lambda: torch.device("cuda"))


class FlatUnit:
    """Host-side storage for one feed-forward unit."""

    def __init__(self, cfg: StreamConfig, index: int):
        self.index = index
        self.shapes = [(cfg.ffn, cfg.hidden), (cfg.hidden, cfg.ffn)]
        self.numel = sum(math.prod(s) for s in self.shapes)
        self.host = torch.empty(self.numel, dtype=cfg.dtype).pin_memory()
        self.host.normal_(0, 0.02)
        self.slot: Optional[int] = None
        self.arrived = torch.cuda.Event()

    def views(self, flat: torch.Tensor) -> List[torch.Tensor]:
        out, off = [], 0
        for s in self.shapes:
            n = math.prod(s)
            out.append(flat[off:off + n].view(s))
            off += n
        return out


class SlotPool:
    def __init__(self, n: int, numel: int, cfg: StreamConfig):
        self.bufs = [torch.empty(numel, dtype=cfg.dtype, device=cfg.device) for _ in range(n)]
        self.cursor = 0

    def take(self) -> int:
        s = self.cursor
        self.cursor = (self.cursor + 1) % len(self.bufs)
        return s

    def __getitem__(self, i: int) -> torch.Tensor:
        return self.bufs[i]


class UnitStreamer:
    def __init__(self, units: List[FlatUnit], cfg: StreamConfig):
        self.units = units
        self.cfg = cfg
        self.pool = SlotPool(cfg.lookahead + 1, units[0].numel, cfg)
        self.copy_stream = torch.cuda.Stream(cfg.device)

    def fetch(self, i: int) -> None:
        if i >= len(self.units):
            return
        unit = self.units[i]
        if unit.slot is not None:
            return
        unit.slot = self.pool.take()
        with torch.cuda.stream(self.copy_stream):
            self.pool[unit.slot].copy_(unit.host, non_blocking=True)
            unit.arrived.record(self.copy_stream)

    def acquire(self, i: int) -> List[torch.Tensor]:
        unit = self.units[i]
        if unit.slot is None:
            self.fetch(i)
        for k in range(1, self.cfg.lookahead + 1):
            self.fetch(i + k)
        torch.cuda.current_stream().wait_event(unit.arrived)
        return unit.views(self.pool[unit.slot])

    def release(self, i: int) -> None:
        self.units[i].slot = None


class StreamedMLP:
    def __init__(self, cfg: StreamConfig):
        self.cfg = cfg
        self.units = [FlatUnit(cfg, i) for i in range(cfg.depth)]
        self.streamer = UnitStreamer(self.units, cfg)
        self.norm_w = torch.ones(cfg.hidden, dtype=cfg.dtype, device=cfg.device)

    def block(self, x: torch.Tensor, weights: List[torch.Tensor]) -> torch.Tensor:
        up, down = weights
        h = F.layer_norm(x, (self.cfg.hidden,), self.norm_w)
        h = F.gelu(F.linear(h, up))
        return x + F.linear(h, down)

    @torch.no_grad()
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        for i in range(self.cfg.depth):
            w = self.streamer.acquire(i)
            x = self.block(x, w)
            self.streamer.release(i)
        return x


def evaluate(model: StreamedMLP, batches: int, batch: int) -> float:
    total = torch.zeros((), device=model.cfg.device)
    for _ in range(batches):
        x = torch.randn(batch, model.cfg.hidden, dtype=model.cfg.dtype, device=model.cfg.device)
        y = model(x)
        total += y.float().pow(2).mean()
    return total.item() / batches


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--depth", type=int, default=24)
    ap.add_argument("--batch", type=int, default=256)
    ap.add_argument("--batches", type=int, default=4)
    args = ap.parse_args()
    cfg = StreamConfig(depth=args.depth)
    print("mean square", evaluate(StreamedMLP(cfg), args.batches, args.batch))


if __name__ == "__main__":
    main()
