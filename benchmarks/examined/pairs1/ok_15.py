"""Intermediate previews of a diffusion run, decoded beside the denoising loop."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Preview:
    step: int
    image: torch.Tensor
    done: torch.cuda.Event


class PreviewDecoder:
    def __init__(self, vae):
        self.vae = vae
        self.stream = torch.cuda.Stream()
        self.previews = []

    def submit(self, step, latents):
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            image = self.vae(latents).clamp(0, 1)
            host = image.to("cpu", non_blocking=True)
            done = torch.cuda.Event()
            done.record()
        latents.record_stream(self.stream)
        self.previews.append(Preview(step, host, done))

    def collect(self):
        for p in self.previews:
            p.done.synchronize()
            yield p.step, p.image.mean().item()
        self.previews.clear()


class Pipeline:
    def __init__(self):
        self.unet = nn.Sequential(nn.Conv2d(4, 64, 3, padding=1), nn.SiLU(), nn.Conv2d(64, 4, 3, padding=1)).cuda()
        vae = nn.Sequential(nn.ConvTranspose2d(4, 32, 8, 8), nn.SiLU(), nn.Conv2d(32, 3, 1)).cuda()
        self.preview = PreviewDecoder(vae)

    @torch.no_grad()
    def __call__(self, steps=30, every=5):
        latents = torch.randn(2, 4, 64, 64, device="cuda")
        for i in range(steps):
            noise = self.unet(latents)
            latents = latents - noise / steps
            if i % every == 0:
                self.preview.submit(i, latents)
        return latents.cpu(), list(self.preview.collect())


if __name__ == "__main__":
    print(Pipeline()()[1])
