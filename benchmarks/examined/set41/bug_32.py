"""Realtime chunked video generation: decode of one chunk overlaps denoising of the next."""
import argparse
from dataclasses import dataclass
from typing import Iterator, List, Optional

import torch
import torch.nn as nn


@dataclass
class SessionConfig:
    chunk_frames: int = 4
    latent_ch: int = 16
    latent_h: int = 60
    latent_w: int = 104
    steps: int = 4
    overlap: bool = True
    dtype: torch.dtype = torch.float16


class Denoiser(nn.Module):
    def __init__(self, ch: int, width: int = 256, depth: int = 6):
        super().__init__()
        self.inp = nn.Conv3d(2 * ch, width, 3, padding=1)
        self.mid = nn.ModuleList(nn.Conv3d(width, width, 3, padding=1) for _ in range(depth))
        self.out = nn.Conv3d(width, ch, 3, padding=1)

    def forward(self, x, cond, sigma: float):
        h = self.inp(torch.cat([x, cond], 1)) * (1 + sigma)
        for m in self.mid:
            h = h + torch.nn.functional.silu(m(h))
        return self.out(h)


class VideoDecoder(nn.Module):
    def __init__(self, ch: int, width: int = 128):
        super().__init__()
        self.pre = nn.Conv3d(ch, width, 3, padding=1)
        self.ups = nn.ModuleList(nn.Conv3d(width, width, 3, padding=1) for _ in range(3))
        self.rgb = nn.Conv3d(width, 3, 3, padding=1)

    def forward(self, z):
        h = self.pre(z)
        for u in self.ups:
            h = torch.nn.functional.interpolate(h, scale_factor=(1, 2, 2), mode="nearest")
            h = torch.nn.functional.silu(u(h))
        return self.rgb(h).tanh()


class DecodedChunk:
    def __init__(self, frames: torch.Tensor, done: torch.cuda.Event):
        self._frames = frames
        self._done = done

    def to_host(self) -> torch.Tensor:
        self._done.synchronize()
        return self._frames.mul(127.5).add(127.5).to(torch.uint8).cpu()


class RealtimeSession:
    def __init__(self, cfg: SessionConfig, device: torch.device):
        self.cfg = cfg
        self.device = device
        self.dit = Denoiser(cfg.latent_ch).to(device, cfg.dtype).eval()
        self.vae = VideoDecoder(cfg.latent_ch).to(device, cfg.dtype).eval()
        shape = (1, cfg.latent_ch, cfg.chunk_frames, cfg.latent_h, cfg.latent_w)
        self.latents = torch.zeros(shape, device=device, dtype=cfg.dtype)
        self.context = torch.zeros(shape, device=device, dtype=cfg.dtype)
        self.sigmas = torch.linspace(1.0, 0.0, cfg.steps + 1).tolist()
        self.decode_stream = torch.cuda.Stream(device) if cfg.overlap else None
        self.gen = torch.Generator(device).manual_seed(0)

    def denoise(self) -> None:
        self.latents.normal_(generator=self.gen)
        for s0, s1 in zip(self.sigmas[:-1], self.sigmas[1:]):
            v = self.dit(self.latents, self.context, s0)
            self.latents.add_(v, alpha=s1 - s0)
        self.context.copy_(self.latents)

    def decode(self) -> DecodedChunk:
        done = torch.cuda.Event()
        if self.decode_stream is None:
            frames = self.vae(self.latents)
            done.record()
            return DecodedChunk(frames, done)
        self.decode_stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.decode_stream):
            frames = self.vae(self.latents)
            done.record(self.decode_stream)
        frames.record_stream(torch.cuda.current_stream(self.device))
        return DecodedChunk(frames, done)

    @torch.inference_mode()
    def chunks(self, n: int) -> Iterator[torch.Tensor]:
        ready: Optional[DecodedChunk] = None
        for _ in range(n):
            self.denoise()
            nxt = self.decode()
            if ready is not None:
                yield ready.to_host()
            ready = nxt
        if ready is not None:
            yield ready.to_host()


class FrameSink:
    def __init__(self):
        self.means: List[float] = []
        self.count = 0

    def push(self, clip: torch.Tensor) -> None:
        self.count += clip.shape[2]
        self.means.append(clip.float().mean().item())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--chunks", type=int, default=16)
    ap.add_argument("--steps", type=int, default=4)
    ap.add_argument("--no-overlap", action="store_true")
    args = ap.parse_args()
    cfg = SessionConfig(steps=args.steps, overlap=not args.no_overlap)
    session = RealtimeSession(cfg, torch.device("cuda"))
    sink = FrameSink()
    for clip in session.chunks(args.chunks):
        sink.push(clip)
    print(sink.count, sink.means[-1])


if __name__ == "__main__":
    main()
