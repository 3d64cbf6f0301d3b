"""Chunked video generation with the decoder on its own stream."""
import argparse
from collections import deque
from dataclasses import dataclass
from typing import Deque, Iterator, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class ChunkSpec:
    frames: int = 4
    ch: int = 16
    h: int = 45
    w: int = 80
    steps: int = 4
    depth: int = 2
    dtype: torch.dtype = torch.float16


class Backbone(nn.Module):
    def __init__(self, ch: int, width: int = 192):
        super().__init__()
        self.a = nn.Conv3d(ch, width, 3, padding=1)
        self.b = nn.Conv3d(width, width, 3, padding=1)
        self.c = nn.Conv3d(width, ch, 3, padding=1)

    def forward(self, x, t: float):
        return self.c(F.silu(self.b(F.silu(self.a(x) * (1 + t)))))


class PixelDecoder(nn.Module):
    def __init__(self, ch: int, width: int = 96):
        super().__init__()
        self.a = nn.Conv3d(ch, width, 3, padding=1)
        self.b = nn.Conv3d(width, 3, 3, padding=1)

    def forward(self, z):
        h = F.interpolate(F.silu(self.a(z)), scale_factor=(1, 8, 8), mode="nearest")
        return self.b(h).tanh().add(1).mul(127.5).to(torch.uint8)


class DecodeLane:
    def __init__(self, vae: PixelDecoder, device: torch.device):
        self.vae = vae
        self.stream = torch.cuda.Stream(device)

    def enqueue(self, latents: torch.Tensor) -> Tuple[torch.Tensor, torch.cuda.Event]:
        snap = latents.clone()
        self.stream.wait_stream(torch.cuda.current_stream())
        snap.record_stream(self.stream)
        with torch.cuda.stream(self.stream):
            px = self.vae(snap)
            host = torch.empty(px.shape, dtype=px.dtype, pin_memory=True)
            host.copy_(px, non_blocking=True)
            ev = torch.cuda.Event()
            ev.record()
        return host, ev


class Session:
    def __init__(self, spec: ChunkSpec, device: torch.device):
        self.spec = spec
        self.net = Backbone(spec.ch).to(device, spec.dtype).eval()
        self.lane = DecodeLane(PixelDecoder(spec.ch).to(device, spec.dtype).eval(), device)
        self.lane.stream.wait_stream(torch.cuda.current_stream(device))
        self.z = torch.zeros(1, spec.ch, spec.frames, spec.h, spec.w, device=device, dtype=spec.dtype)
        self.pending: Deque[Tuple[torch.Tensor, torch.cuda.Event]] = deque()

    def _denoise(self) -> None:
        self.z.normal_()
        for i in range(self.spec.steps):
            t = 1 - i / self.spec.steps
            self.z.sub_(self.net(self.z, t), alpha=1 / self.spec.steps)

    def _pop(self) -> torch.Tensor:
        host, ev = self.pending.popleft()
        ev.synchronize()
        return host

    @torch.inference_mode()
    def stream(self, n: int) -> Iterator[torch.Tensor]:
        for _ in range(n):
            self._denoise()
            self.pending.append(self.lane.enqueue(self.z))
            if len(self.pending) > self.spec.depth:
                yield self._pop()
        while self.pending:
            yield self._pop()


class Writer:
    def __init__(self):
        self.frames = 0
        self.total = 0.0

    def push(self, clip: torch.Tensor) -> None:
        self.frames += clip.shape[2]
        self.total += clip.float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--chunks", type=int, default=12)
    args = ap.parse_args()
    s = Session(ChunkSpec(), torch.device("cuda"))
    w = Writer()
    for clip in s.stream(args.chunks):
        w.push(clip)
    print(w.frames, w.total / args.chunks)


if __name__ == "__main__":
    main()
